#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizer/pre_tokenizer.h"

#include <pcre2.h>

#include <string>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::tokenizer {
namespace {

// The published expressions, with \s spelled \p{White_Space}: PCRE2's own \s is another set
// (it has U+180E). Runs that nothing may shorten are possessive, so no run is scanned twice.
constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d"
    "| ?\\p{L}++"
    "| ?\\p{N}++"
    "| ?[^\\p{White_Space}\\p{L}\\p{N}]++"
    "|\\p{White_Space}+(?!\\P{White_Space})"
    "|\\p{White_Space}++";
constexpr const char* kQwen2 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}++"
    "|\\p{N}"
    "| ?[^\\p{White_Space}\\p{L}\\p{N}]++[\\r\\n]*+"
    "|\\p{White_Space}*[\\r\\n]++"
    "|\\p{White_Space}+(?!\\P{White_Space})"
    "|\\p{White_Space}++";
constexpr const char* kDigit = "\\p{N}";

struct Rule {
  std::string_view name;
  const char* pattern;
  bool digits_alone;
};
constexpr Rule kRules[] = {
    {"gpt-2", kGpt2, false},   {"smollm", kGpt2, true}, {"starcoder", kGpt2, true},
    {"refact", kGpt2, true},   {"qwen2", kQwen2, false},
};

constexpr uint32_t kMatchLimit = 50'000'000;  // far above one pass over the largest request body

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct DataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;
using MatchData = std::unique_ptr<pcre2_match_data, DataFree>;
using MatchContext = std::unique_ptr<pcre2_match_context, ContextFree>;

// What one call of split() needs besides the expression; not shared between threads.
struct Matcher {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
  Matcher() {
    CHECK(data != nullptr && context != nullptr);
    pcre2_set_match_limit(context.get(), kMatchLimit);
  }
};

Code compile(const char* pattern) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  Code compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
  CHECK(compiled != nullptr);  // the patterns are constants
  // Without JIT support matching still works, only slower.
  (void)pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
  return compiled;
}

// Appends the matches of code in text, and whatever lies between them.
Status match_all(const pcre2_code* code, const Matcher& matcher, std::string_view text,
                 std::vector<std::string_view>& pieces) {
  size_t at = 0;
  while (at < text.size()) {
    const int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               PCRE2_NO_UTF_CHECK, matcher.data.get(), matcher.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return Error{ErrorCode::kExhausted,
                   "pre-tokenizer gave up at byte " + std::to_string(at) + " (PCRE2 error " +
                       std::to_string(rc) + ")",
                   {}};
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(matcher.data.get());
    CHECK_GT(range[1], range[0]);  // no expression matches the empty string
    if (range[0] > at) pieces.push_back(text.substr(at, range[0] - at));
    pieces.push_back(text.substr(range[0], range[1] - range[0]));
    at = range[1];
  }
  if (at < text.size()) pieces.push_back(text.substr(at));
  return {};
}

}  // namespace

struct PreTokenizer::Expression {
  Code words;
  Code digit;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  std::string known;
  for (const Rule& rule : kRules) {
    known.append(known.empty() ? "" : ", ").append(rule.name);
    if (rule.name != name) continue;
    PreTokenizer result;
    result.expression_ = std::make_unique<const Expression>(
        Expression{.words = compile(rule.pattern), .digit = compile(kDigit)});
    result.digits_alone_ = rule.digits_alone;
    return result;
  }
  return Error{ErrorCode::kUnsupported,
               "pre-tokenizer \"" + std::string(name) + "\" is not supported (supported: " +
                   known + ")",
               "tokenizer.ggml.pre"};
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  const Matcher matcher;
  std::vector<std::string_view> runs, pieces;
  if (digits_alone_) {
    // A run between two digits is either digit-free or one digit: both go through `words` alone,
    // so that its look-ahead sees the end of the run.
    const Status status = match_all(expression_->digit.get(), matcher, text, runs);
    if (!status) return status.error();
  } else if (!text.empty()) {
    runs.push_back(text);
  }
  for (const std::string_view run : runs) {
    const Status status = match_all(expression_->words.get(), matcher, run, pieces);
    if (!status) return status.error();
  }
  return pieces;
}

}  // namespace tandem::tokenizer
