#include "model/chat_template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace tandem::chat_template {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using tokenizer::Origin;
using tokenizer::RenderedPrompt;

Result<RenderedPrompt> render(const std::string& source, const ordered_json& request,
                              RenderLimits limits = {}) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error();
  const ordered_json model = {{"bos_token", "<s>"}};
  return parsed->render({.request = request, .model = model, .limits = limits});
}

// The text with everything that is content in brackets: "<s>[hi]".
std::string shown(const std::string& source, const ordered_json& request) {
  const auto prompt = render(source, request);
  if (!prompt) return "error: " + prompt.error().message;
  std::string out;
  size_t at = 0;
  for (const auto& span : prompt->spans) {
    const std::string part = prompt->text.substr(at, span.size_bytes);
    out += span.origin == Origin::kContent ? "[" + part + "]" : part;
    at += span.size_bytes;
  }
  EXPECT_EQ(at, prompt->text.size());
  return out;
}

TEST(Provenance, LiteralsAndModelValuesAreMarkupRequestValuesAreContent) {
  const ordered_json request = {
      {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  EXPECT_EQ(shown("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] }}"
                  "{% endfor %}", request),
            "<s><[user]>[hi]");
}

TEST(Provenance, FollowsEveryByteThroughTextOperations) {
  const ordered_json request = {
      {"x", " aBc "}, {"y", "q,r"}, {"l", {"a", "b"}}, {"d", {{"k", "v"}}}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{ '<' + x + '>' }}", "<[ aBc ]>"},
      {"{{ '<' ~ x ~ 1 }}", "<[ aBc ]1"},
      {"{{ x | trim }}", "[aBc]"},
      {"{{ ('<' + x) | upper }}", "<[ ABC ]"},
      {"{{ ('ab' + x + 'cd')[1:4] }}", "b[ a]"},
      {"{{ ('ab' + x)[::-1] }}", "[ cBa ]ba"},
      {"{{ x | replace('B', '|') }}", "[ a]|[c ]"},
      {"{{ 'xBx' | replace('B', x) }}", "x[ aBc ]x"},
      {"{{ x.replace('B', y) }}", "[ aq,rc ]"},
      {"{{ y.split(',')[1] }}", "[r]"},
      {"{{ l | join('-') }}", "[a]-[b]"},
      {"{{ '-'.join(l) }}", "[a]-[b]"},
      {"{{ l | tojson }}", "[\"[a]\", \"[b]\"]"},
      {"{{ d | tojson }}", "{\"[k]\": \"[v]\"}"},
      {"{{ d }}", "{'[k]': '[v]'}"},
      {"{{ '%s!' % x }}", "[ aBc ]!"},
      {"{{ '{}!'.format(x) }}", "[ aBc ]!"},
      {"{{ x * 2 }}", "[ aBc  aBc ]"},
      {"{{ x | title }}", "[ Abc ]"},
      {"{{ x | e }}", "[ aBc ]"},
      {"{{ x | indent(2, true) }}", "  [ aBc ]"},
      {"{{ x | string | list | first }}", "[ ]"},
      {"{% set z %}<{{ x }}>{% endset %}{{ z }}", "<[ aBc ]>"},
      {"{% filter upper %}a{{ x }}{% endfilter %}", "A[ ABC ]"},
      {"{% macro m(v) %}({{ v }}){% endmacro %}{{ m(x) }}", "([ aBc ])"},
      {"{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}a{{ x }}{% endcall %}",
       "(a[ aBc ])"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v]"},
      {"{% set ns = namespace(t='') %}{% for i in l %}{% set ns.t = ns.t + '+' + i %}{% endfor %}"
       "{{ ns.t }}", "+[a]+[b]"},
      {"{{ x or 'z' }}{{ x if true else 'z' }}", "[ aBc  aBc ]"},
      {"{{ l | map('upper') | list | last }}", "[B]"},
  };
  for (const auto& [source, wanted] : cases) EXPECT_EQ(shown(source, request), wanted) << source;
}

TEST(Provenance, ControlTextAssembledFromContentStaysContent) {
  const ordered_json request = {{"a", "<|im_"}, {"b", "start|>"}};
  EXPECT_EQ(shown("{{ a + b }}", request), "[<|im_start|>]");
  EXPECT_EQ(shown("{{ '<|im_' + b }}", request), "<|im_[start|>]");
  EXPECT_EQ(shown("{{ 'X' | replace('X', a ~ b) }}", request), "[<|im_start|>]");
}

TEST(ChatTemplate, CarriesTheTextOfRaiseException) {
  const auto prompt = render("{{ raise_exception('No ' + role + '!') }}", {{"role", "tool"}});
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prompt.error().message, "No tool!");
  EXPECT_EQ(prompt.error().field, "messages");
}

TEST(ChatTemplate, RuntimeErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ 'a' + l }}", "line 2: TypeError: can only concatenate str (not \"list\") to str"},
      {"{{ missing.x }}", "line 1: 'missing' is undefined"},
      {"{{ l.x.y }}", "has no attribute 'x'"},
      {"{{ missing + 1 }}", "'missing' is undefined"},
      {"{{ missing() }}", "'missing' is undefined"},
      {"{{ 1 / 0 }}", "ZeroDivisionError"},
      {"{{ 9223372036854775807 + 1 }}", "OverflowError"},
      {"{{ 2 ** 64 }}", "OverflowError"},
      {"{{ 1 < 'a' }}", "TypeError: '<' not supported"},
      {"{% for x in 5 %}{% endfor %}", "'int' object is not iterable"},
      {"{% set a, b = [1] %}", "ValueError: expected 2 values"},
      {"{% set l.x = 1 %}", "cannot assign attribute"},
      {"{{ l.append(4) }}", "has no attribute 'append'"},
      {"{{ missing | tojson }}", "not JSON serializable"},
      {"{{ {[1]: 2} }}", "unhashable"},
      {"{{ 'a'.split('') }}", "empty separator"},
      {"{{ l[::0] }}", "slice step cannot be zero"},
      {"{{ '%d' % 1e300 }}", "OverflowError"},
  };
  for (const auto& [source, message] : cases) {
    const auto prompt = render(source, {{"l", {1, 2}}});
    ASSERT_FALSE(prompt.ok()) << source;
    EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument) << source;
    EXPECT_THAT(prompt.error().message, HasSubstr(message)) << source;
  }
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnowWhenParsing) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n\n{% include 'x' %}", "unsupported construct tag 'include' at line 3"},
      {"{{ x | nofilter }}", "unsupported construct filter 'nofilter' at line 1"},
      {"{{ x is notest }}", "unsupported construct test 'notest'"},
      {"{% for x in y recursive %}{% endfor %}", "unsupported construct recursive loop"},
      {"{{ f(*x) }}", "unsupported construct '*' in arguments"},
      {"{% autoescape true %}{% endautoescape %}", "unsupported construct tag 'autoescape'"},
  };
  for (const auto& [source, message] : cases) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnsupported) << source;
    EXPECT_THAT(parsed.error().message, HasSubstr(message));
  }
}

TEST(ChatTemplate, RefusesSyntaxErrorsWithTheirLine) {
  for (const std::string source :
       {"{% if x %}", "{{ x", "{{ x }", "{% endif %}", "{{ 'abc }}", "{# x", "{% raw %}x",
        "{{ (1 }}", "{{ ) }}", "{% if %}x{% endif %}", "{% for x %}{% endfor %}", "{{ 1 + }}",
        "{% break %}", "{{ a b }}", "{% set %}", "{{ x. }}", "{{ x[] }}", "{{ '\\ud800' }}",
        "{% macro m(a=1, b) %}{% endmacro %}", "{{ 0x }}", "{{ $ }}", "\xFF"}) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt) << source;
  }
  EXPECT_THAT(ChatTemplate::parse("\n\n{{ 1 + }}").error().message, HasSubstr("line 3"));
}

TEST(ChatTemplate, NeverRunsWithoutBound) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for i in range(100000000) %}{% endfor %}", "too many steps"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nests too deeply"},
      {"{{ 'abcdefgh' * 1000000000 }}", "too much text"},
      {"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
       "{% endfor %}", "too much text"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}",
       "nested too deeply"},
      {"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
       "{% endfor %}{{ ns.l }}", "too large"},
      {"{% for i in range(3000) %}{% for j in range(10000) %}a{% endfor %}{% endfor %}", "too"},
      {"{{ [1] * 1000000000 }}", "too many steps"},
      {"{{ 'a' | center(1000000000) }}", "too much text"},
  };
  const RenderLimits limits{
      .max_steps = 100'000, .max_bytes = 1 << 20, .max_output_bytes = 1 << 18};
  for (const auto& [source, message] : cases) {
    const auto prompt = render(source, ordered_json::object(), limits);
    ASSERT_FALSE(prompt.ok()) << source;
    EXPECT_THAT(prompt.error().message, HasSubstr(message)) << source;
  }
}

TEST(ChatTemplate, StopsAtTheOutputLimit) {
  EXPECT_TRUE(render("abcdefgh", ordered_json::object(), {.max_output_bytes = 8}).ok());
  const auto prompt = render("abcdefgh{{ 1 }}", ordered_json::object(), {.max_output_bytes = 8});
  ASSERT_FALSE(prompt.ok());
  EXPECT_THAT(prompt.error().message, HasSubstr("output is too large"));
}

TEST(ChatTemplate, RefusesDeepOrBrokenValuesOfTheRequest) {
  ordered_json deep = 1;
  for (int i = 0; i < 150; ++i) deep = ordered_json::array({deep});
  const auto nested = render("{{ x }}", {{"x", deep}});
  ASSERT_FALSE(nested.ok());
  EXPECT_THAT(nested.error().message, HasSubstr("nested too deeply"));
  EXPECT_FALSE(render("{{ x }}", {{"x", "a\xFF"}}).ok());
}

TEST(ChatTemplate, DeepTemplatesAreRefused) {
  std::string parentheses(5000, '('), blocks;
  EXPECT_FALSE(ChatTemplate::parse("{{ " + parentheses + "1 }}").ok());
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(5000, '-') + "1 }}").ok());
  for (int i = 0; i < 500; ++i) blocks += "{% if x %}";
  EXPECT_FALSE(ChatTemplate::parse(blocks).ok());
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  EXPECT_FALSE(ChatTemplate::parse("{{ " + sum + " }}").ok());
  std::string short_sum = "1";  // parsed, but too deep to evaluate
  for (int i = 0; i < 2000; ++i) short_sum += "+1";
  const auto prompt = render("{{ " + short_sum + " }}", ordered_json::object());
  ASSERT_FALSE(prompt.ok());
  EXPECT_THAT(prompt.error().message, HasSubstr("nests too deeply"));
}

TEST(ChatTemplate, CyclesAreFreed) {  // the leak check of the sanitizer build looks at this one
  EXPECT_EQ(shown("{% set ns = namespace() %}{% set ns.self = ns %}"
                  "{% macro m() %}{{ ns.x }}{% endmacro %}{% set ns.m = m %}{% set ns.x = 1 %}"
                  "{{ ns.m() }}{% for i in [1] %}{% set ns.loop = loop %}{% endfor %}"
                  "{{ ns.loop.length }}", ordered_json::object()),
            "10");
}

TEST(ChatTemplate, ExtremeArgumentsAreHarmless) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'abcdefghijkl' | truncate(100, leeway=-1000) }}", "abcdefghijkl"},
      {"{{ 'ab cd' | truncate(9223372036854775807) }}", "ab cd"},
      {"{{ 'a-b-c'.rsplit('-', 9223372036854775807) | join }}", "abc"},
      {"{{ 'a-b-c'.rsplit('-', 1) | join('|') }}", "a-b|c"},
      {"{{ 'abc'[-9223372036854775807:9223372036854775807] }}", "abc"},
      {"{{ 'abc'[::9223372036854775807] }}", "a"},
      {"{{ 'abc'[::-9223372036854775807] }}", "c"},
      {"{{ -9223372036854775807 // -1 }}", "9223372036854775807"},
      {"{{ '%.99f' % 1 }}", "1.000000000000000000000000000000"},
      {"{{ 1e400 }}", "inf"},
      {"{{ 1e300 | int }}", "0"},
  };
  for (const auto& [source, wanted] : cases) {
    EXPECT_EQ(shown(source, ordered_json::object()), wanted) << source;
  }
}

TEST(ChatTemplate, ScopesFollowJinja) {
  EXPECT_EQ(shown("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}"
                  "{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}", ordered_json::object()),
            "191915");
}

TEST(ChatTemplate, SurvivesRandomDamageToATemplate) {
  const std::string source =
      "{% macro m(a, b=1) %}{{ a ~ b }}{% endmacro %}{%- set ns = namespace(x=[1,2]) -%}"
      "{% for k, v in d.items() if v is not none %}{{ loop.index }}{{ k | upper }}"
      "{{ m(v, b='q')[1:] }}{% else %}{{ 'none' if d else {'a': (1, 2.5e3)} | tojson }}"
      "{% endfor %}{# note #}{% raw %}{{ x }}{% endraw %}{{ \"a\\n\\u00e9\" }}";
  const ordered_json request = {{"d", {{"k", "v"}, {"n", nullptr}}}};
  ASSERT_TRUE(render(source, request).ok());
  std::mt19937 random(5);
  int num_accepted = 0;
  for (int round = 0; round < 600; ++round) {
    std::string damaged = source;
    for (uint32_t i = 0; i < 1 + random() % 3; ++i) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0: damaged.erase(at, 1 + random() % 4); break;
        case 1: damaged.insert(at, 1, "{}%|()[].,'\"-+ix1"[random() % 17]); break;
        default: damaged[at] = damaged[random() % damaged.size()];
      }
    }
    if (render(damaged, request).ok()) ++num_accepted;  // no crash is what counts
  }
  EXPECT_GT(num_accepted, 0);
  EXPECT_LT(num_accepted, 600);
}

}  // namespace
}  // namespace tandem::chat_template
