#pragma once
// What AsioLoop hides: the io_context and its timers.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <mutex>

#include "comm/http/asio_loop.h"

namespace tandem::http {

struct AsioLoop::Impl {
  struct Timer {
    boost::asio::steady_timer timer;
    Handler handler;
  };

  // Asio alone does not keep the order between handlers posted by the loop's own thread and by
  // others, which EventLoop promises: they queue here, and io only knows that some wait.
  void run_posted();

  // All of it stands before io: handlers that io destroys may still post and cancel.
  std::mutex mutex;
  std::deque<Handler> posted;        // guarded by mutex
  bool scheduled = false;            // guarded by mutex; a run_posted is under way
  std::map<TimerId, Timer> timers;   // loop thread only
  TimerId next_timer = 1;            // loop thread only
  boost::asio::io_context io{1};   // one thread runs it
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
};

}  // namespace tandem::http
