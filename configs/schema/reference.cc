#include "configs/schema/reference.h"

#include "configs/schema/knobs.h"

namespace tandem::config {
namespace {

// The sections of a dotted key but its last word.
std::vector<std::string> sections_of(const std::string& key) {
  std::vector<std::string> sections;
  size_t start = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', start)) {
    sections.push_back(key.substr(start, dot - start));
    start = dot + 1;
  }
  return sections;
}

// Appends "section:" lines for the part of `sections` that differs from what is open.
void open_sections(std::string& out, std::vector<std::string>& open,
                   const std::vector<std::string>& sections) {
  size_t same = 0;
  while (same < open.size() && same < sections.size() && open[same] == sections[same]) ++same;
  for (size_t i = same; i < sections.size(); ++i) {
    out += std::string(2 * i, ' ') + sections[i] + ":\n";
  }
  open = sections;
}

void append_value(std::string& out, std::vector<std::string>& open, const std::string& key,
                  const std::string& value) {
  const std::vector<std::string> sections = sections_of(key);
  open_sections(out, open, sections);
  out += std::string(2 * sections.size(), ' ') + key.substr(key.rfind('.') + 1) + ": " + value +
         "\n";
}

// Planned keys and "the model's own" can't be written as a value; a testing key that stands in a
// file warns, even with its default.
bool is_absent(const Knob& knob, const Config& config, Role role) {
  if (knob.range == "not yet supported") return true;
  if (knob.key.starts_with("testing.")) return knob.get(config, role) == knob.get({}, role);
  return knob.key == "model.max_context" && knob.get(config, role) == "0";
}

}  // namespace

std::vector<KnobInfo> list_knobs() {
  const Config defaults;
  std::vector<KnobInfo> infos;
  for (const Knob& knob : all_knobs()) {
    const std::string value = knob.derived_default.empty()
                                  ? knob.get(defaults, Role::kMixed) : knob.derived_default;
    infos.push_back({knob.key, knob.type, value, knob.range, knob.meaning});
  }
  return infos;
}

std::string reference_text() {
  std::string text =
      "Keys of the cluster file. pools.* stands for pools.prefill, pools.decode, pools.mixed.\n"
      "Sizes: B, KiB, MiB, GiB, TiB. Durations: us, ms, s, min.\n"
      "Any key can be given on the command line: --set kv.block_size=16\n";
  for (const KnobInfo& knob : list_knobs()) {
    text += "\n" + knob.key + "\n    " + knob.type + "; default: " + knob.default_value +
            "; range: " + knob.range + "\n    " + knob.meaning + "\n";
  }
  return text;
}

std::string resolved_text(const Config& config) {
  std::string out;
  std::vector<std::string> open;
  for (const Knob& knob : all_knobs()) {
    if (knob.is_pool() || is_absent(knob, config, Role::kMixed)) continue;
    append_value(out, open, knob.key, knob.get(config, Role::kMixed));
  }
  for (const Role role : kRoles) {
    if (config.pools.of(role).instances == 0) continue;
    for (const Knob& knob : all_knobs()) {
      if (!knob.is_pool() || is_absent(knob, config, role)) continue;
      append_value(out, open, knob.key_for(role), knob.get(config, role));
    }
  }
  return out;
}

}  // namespace tandem::config
