#pragma once
// Splits a server-sent event stream into the `data:` of its events.
// Source: WHATWG HTML, section 9.2 (only the data field is used).

#include <string>
#include <string_view>
#include <vector>

namespace tandem::client {

// A value type; feed it the pieces of one stream in order.
class SseReader {
 public:
  // The data of every event that `piece` completes, in order. Lines longer than 16 MiB are cut.
  std::vector<std::string> feed(std::string_view piece);

 private:
  void take_line(std::vector<std::string>& events);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace tandem::client
