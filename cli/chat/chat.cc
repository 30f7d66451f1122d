#include "cli/chat/chat.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace tandem::chat {
namespace {

// While it lives, SIGINT is blocked and only asked for. Outside, SIGINT ends the program as usual.
class InterruptGuard {
 public:
  InterruptGuard() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
  }
  ~InterruptGuard() {
    (void)is_interrupted();  // what arrived too late must not end the program now
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool is_interrupted() {
    const timespec no_wait{0, 0};
    interrupted_ = interrupted_ || sigtimedwait(&set_, nullptr, &no_wait) == SIGINT;
    return interrupted_;
  }

 private:
  sigset_t set_;
  sigset_t old_;
  bool interrupted_ = false;
};

int fail(const Error& error) {
  std::fprintf(stderr, "tandem chat: %s%s\n", error.message.c_str(),
               error.code == ErrorCode::kUnavailable
                   ? "; is `tandem up` running there? give --url otherwise" : "");
  return 2;
}

bool print_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return true;
}

void print_figures(const ChatCommand& command, const ChatFigures& figures) {
  if (command.show_figures) std::fputs(describe(figures).c_str(), stderr);
}

Result<ChatAnswer> ask(const client::Url& url, const ChatCommand& command,
                       const std::vector<Message>& messages,
                       const std::function<bool(std::string_view)>& on_text) {
  InterruptGuard guard;
  ChatOptions options = command.options;
  options.is_cancelled = [&guard] { return guard.is_interrupted(); };
  return stream_chat(url, messages, options, [&](std::string_view piece) {
    return on_text(piece) && !guard.is_interrupted();
  });
}

int ask_once(const client::Url& url, const ChatCommand& command, std::vector<Message> messages) {
  messages.push_back({"user", command.message});
  bool has_text = false;
  const Result<ChatAnswer> answer = ask(url, command, messages, [&](std::string_view piece) {
    has_text = true;
    return print_text(piece);
  });
  if (has_text) print_text("\n");
  if (!answer.ok()) return fail(answer.error());
  print_figures(command, answer->figures);
  return 0;
}

int converse(const client::Url& url, const ChatCommand& command, std::vector<Message> messages) {
  const bool on_terminal = isatty(STDIN_FILENO) != 0;
  if (on_terminal) {
    std::fprintf(stderr, "%s at %s. Ctrl-C ends an answer, Ctrl-D the conversation.\n",
                 command.options.model.c_str(), url.text().c_str());
  }
  for (;;) {
    if (on_terminal) std::fputs("\n> ", stderr);
    std::string line;
    if (!std::getline(std::cin, line)) return 0;
    if (line.empty()) continue;
    messages.push_back({"user", line});
    std::string text;
    const auto on_text = [&](std::string_view piece) {
      text += piece;
      return print_text(piece);
    };
    const Result<ChatAnswer> answer = ask(url, command, messages, on_text);
    if (!text.empty()) print_text("\n");
    if (!answer.ok() && answer.error().code != ErrorCode::kCancelled) return fail(answer.error());
    messages.push_back({"assistant", text});
    if (answer.ok()) print_figures(command, answer->figures);
  }
}

}  // namespace

int run_chat(const ChatCommand& command) {
  const Result<client::Url> url = client::parse_url(command.url);
  if (!url.ok()) return fail(url.error());
  ChatCommand resolved = command;
  if (resolved.options.model.empty()) {
    Result<std::string> model = first_model(*url);
    if (!model.ok()) return fail(model.error());
    resolved.options.model = std::move(model).value();
  }
  std::vector<Message> messages;
  if (!command.system.empty()) messages.push_back({"system", command.system});
  if (!command.message.empty()) return ask_once(*url, resolved, std::move(messages));
  return converse(*url, resolved, std::move(messages));
}

}  // namespace tandem::chat
