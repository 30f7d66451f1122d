#pragma once
// How parsing and rendering fail inside this module. Thrown and caught within it; what leaves the
// module is a Result (chat_template.h).

#include <string>

namespace tandem::chat_template {

struct TemplateError {
  enum class Kind {
    kSyntax,       // the template is malformed
    kUnsupported,  // the template uses something this interpreter does not know
    kRaised,       // the template called raise_exception; message is its text
    kRuntime,      // the template does not fit these variables (a TypeError, an undefined value)
    kLimit,        // too many steps, too deep, too large
  };
  Kind kind = Kind::kRuntime;
  std::string message;
  int line = 0;  // 0: unknown
};

[[noreturn]] inline void fail(std::string message) {
  throw TemplateError{TemplateError::Kind::kRuntime, std::move(message), 0};
}

}  // namespace tandem::chat_template
