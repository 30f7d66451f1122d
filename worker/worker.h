#pragma once
// Worker: one rank of one instance, from its configuration to its exit status.
//
//   main thread    loads the model, warms it up, then computes: ComputeExecutor::run()
//   loop thread    AsioLoop: Engine, scheduler, KV metadata, signals, /metrics and /health
//   I/O thread     the control socket (inside the transport): heartbeats even if the loop is busy
//   link thread    KV sockets, checksums and copies (inside the link)
//
// Main computes because MPI wants its calls on the thread that started it. The loop thread runs
// from the start, so a signal ends a worker that still loads.

#include <string>

#include "comm/launch/rank.h"
#include "configs/schema/config.h"

namespace tandem::worker {

// Exit statuses besides 0 (asked to stop) and 2 (could not start or may not join).
inline constexpr int kExitDeviceFailed = 3;

// Runs until a signal or the coordinator's refusal; returns 0 on SIGTERM or SIGINT. Call it from
// the main thread, before any other thread exists.
// Throws StartupError: what, where, how to fix. Ends the process when the device fails.
int run_worker(const config::Config& config, const std::string& instance,
               const launch::Rank& rank);

}  // namespace tandem::worker
