#pragma once
// The coordinator's process: puts listener, gateway, protocol and control socket on one loop.
//
//   main thread   AsioLoop: HTTP, gateway, Coordinator, signals
//   I/O thread    the control socket (inside the transport)

#include "configs/schema/config.h"

namespace tandem::coordinator {

// Runs until it was asked to stop (SIGTERM, SIGINT or POST /admin/drain) and is idle; a second
// signal ends the process at once. Prints "bound http=HOST:PORT control=tcp://HOST:PORT" on stdout
// when both are bound. Call it from the main thread, before any other thread exists.
// Throws StartupError: what, where, how to fix.
void run_daemon(const config::Config& config);

}  // namespace tandem::coordinator
