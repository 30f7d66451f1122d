#pragma once
// ComputeExecutor: the Executor of a worker. Plans go from the loop thread to the compute thread
// through a bounded queue, results come back as posted handlers; nothing else is shared, but for
// the memory of blocks, of which no two threads touch the same one at a time (the engine sees to
// it: a block in a running plan is neither pushed before the plan is done nor landed in).
//
//   loop thread                     compute thread (whoever calls run())
//   submit(plan, done) --queue--->  Model::run
//   done(result)       <--post----

#include <span>

#include "comm/runtime/bounded_queue.h"
#include "comm/runtime/event_loop.h"
#include "worker/engine/executor.h"
#include "worker/forward/model.h"

namespace tandem::engine {

struct ComputeOptions {
  bool logits_digest = false;  // testing.logits_digest
};

// Owned by the worker. The model is used by the compute thread alone; never plans anything itself.
class ComputeExecutor final : public Executor {
 public:
  // model and loop outlive the executor.
  ComputeExecutor(forward::Model& model, EventLoop& loop, ComputeOptions options);

  // Executes plans on the calling thread until stop(). Throws tensor::DeviceError: the device
  // can't be used any more and no result comes for the running plan.
  void run();
  // Loop thread. Ends run() after the plan that runs, if one does; later plans are thrown away.
  void stop();

  void submit(StepPlan plan, Done done) override;
  std::span<std::byte> block_bytes(BlockId block) override;

 private:
  struct Job {
    StepPlan plan;
    Done done;
  };
  StepResult execute(const StepPlan& plan);

  forward::Model& model_;
  EventLoop& loop_;
  const ComputeOptions options_;
  bool stopped_ = false;       // loop thread only
  BoundedQueue<Job> jobs_{1};  // the engine has one plan at a time
};

}  // namespace tandem::engine
