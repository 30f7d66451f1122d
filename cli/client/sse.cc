#include "cli/client/sse.h"

#include <utility>

namespace tandem::client {
namespace {

constexpr size_t kMaxLineBytes = size_t{16} << 20;

}  // namespace

void SseReader::take_line(std::vector<std::string>& events) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (has_data_) events.push_back(std::exchange(data_, {}));
    has_data_ = false;
    return;
  }
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;
  size_t start = kData.size();
  if (start < line.size() && line[start] == ' ') ++start;
  if (has_data_) data_ += '\n';
  data_ += line.substr(start);
  has_data_ = true;
}

std::vector<std::string> SseReader::feed(std::string_view piece) {
  std::vector<std::string> events;
  for (const char c : piece) {
    const bool is_second_half = c == '\n' && after_cr_;
    after_cr_ = c == '\r';
    if (is_second_half) continue;
    if (c == '\n' || c == '\r') {
      take_line(events);
    } else if (line_.size() < kMaxLineBytes) {
      line_ += c;
    }
  }
  return events;
}

}  // namespace tandem::client
