#include "coordinator/request/text_stream.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::request {

using tokenizer::ControlTokens;

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, TextStreamOptions options)
    : decoder_(tokenizer, options.skip_control ? ControlTokens::kSkip : ControlTokens::kShow),
      include_stop_(options.include_stop) {
  matchers_.reserve(options.stops.size());
  for (std::string& stop : options.stops) matchers_.push_back(make_matcher(std::move(stop)));
}

TextDelta TextStream::feed(std::span<const TokenId> ids) {
  CHECK(!finished_);
  for (const TokenId id : ids) {
    ++num_ids_;
    pending_ids_.push_back(id);
    if (scan(decoder_.feed({&id, 1}))) {
      finished_ = true;
      return delta(/*last=*/true);
    }
  }
  return delta(/*last=*/false);
}

TextDelta TextStream::finish() {
  if (finished_) return {};
  finished_ = true;
  (void)scan(decoder_.finish());
  return delta(/*last=*/true);
}

TextStream::Matcher TextStream::make_matcher(std::string stop) {
  CHECK(!stop.empty());
  Matcher matcher{.stop = std::move(stop), .fallback = {}};
  matcher.fallback.resize(matcher.stop.size(), 0);
  for (size_t i = 1; i < matcher.stop.size(); ++i) {
    uint32_t border = matcher.fallback[i - 1];
    while (border > 0 && matcher.stop[border] != matcher.stop[i]) {
      border = matcher.fallback[border - 1];
    }
    matcher.fallback[i] = matcher.stop[border] == matcher.stop[i] ? border + 1 : border;
  }
  return matcher;
}

// Requires: the stop is not complete yet.
void TextStream::advance(Matcher& matcher, char byte) {
  while (matcher.matched > 0 && matcher.stop[matcher.matched] != byte) {
    matcher.matched = matcher.fallback[matcher.matched - 1];
  }
  if (matcher.stop[matcher.matched] == byte) ++matcher.matched;
}

bool TextStream::scan(const std::string& text) {
  for (const char byte : text) {
    held_.push_back(byte);
    const Matcher* complete = nullptr;
    for (Matcher& matcher : matchers_) {
      advance(matcher, byte);
      if (matcher.matched < matcher.stop.size()) continue;
      if (complete == nullptr || matcher.matched > complete->matched) complete = &matcher;
    }
    if (complete == nullptr) continue;
    cut_at(*complete);
    return true;
  }
  return false;
}

void TextStream::cut_at(const Matcher& matcher) {
  CHECK_LE(matcher.stop.size(), held_.size());
  if (!include_stop_) held_.resize(held_.size() - matcher.stop.size());
  matched_stop_ = matcher.stop;
}

std::string TextStream::release() {
  size_t keep = 0;
  if (!finished_) {
    for (const Matcher& matcher : matchers_) keep = std::max<size_t>(keep, matcher.matched);
  }
  CHECK_LE(keep, held_.size());
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return text;
}

TextDelta TextStream::delta(bool last) {
  TextDelta result{.text = release(), .ids = {}};
  if (last || !result.text.empty()) result.ids = std::exchange(pending_ids_, {});
  return result;
}

}  // namespace tandem::request
