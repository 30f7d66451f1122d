#pragma once
// `tandem chat`: a conversation on the terminal, or one message.

#include <optional>
#include <string>

#include "cli/chat/chat_stream.h"

namespace tandem::chat {

struct ChatCommand {
  std::string url = "http://127.0.0.1:8000";
  std::string message;  // empty: interactive
  std::string system;   // empty: none
  bool show_figures = false;
  ChatOptions options;
};

// Answers go to stdout as they stream, everything else to stderr. Returns the exit status: 0, or
// 2 after an error (one line: what, where, how to fix). Uses SIGINT to end an answer early.
int run_chat(const ChatCommand& command);

}  // namespace tandem::chat
