#include "configs/schema/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>

namespace tandem::config {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 8;

struct Refused {
  int line;
  std::string message;
};

// Builds the tree. Throws Refused, which never leaves this file.
class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, "?", anchor, YamlNode::Kind::kNull, "");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add(mark, tag, anchor, YamlNode::Kind::kScalar, value);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (open_.size() >= kMaxDepth) throw Refused{mark.line + 1, "nested too deeply"};
    refuse_extras(mark, tag, anchor);
    YamlNode node;
    node.kind = YamlNode::Kind::kMapping;
    node.line = mark.line + 1;
    open_.push_back({std::move(node), std::nullopt, 0});
  }
  void OnMapEnd() override {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    place(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    throw Refused{mark.line + 1, "a list; no key takes one, write a value or {key: value}"};
  }
  void OnSequenceEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark.line + 1, "an alias (*name); write the value itself"};
  }

  std::optional<YamlNode> take_root() { return std::move(root_); }

 private:
  struct Open {
    YamlNode node;
    std::optional<std::string> key;  // waiting for its value
    int key_line = 0;
  };

  static void refuse_extras(const YAML::Mark& mark, const std::string& tag,
                            YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Refused{mark.line + 1, "an anchor (&name); write each value where it is used"};
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused{mark.line + 1, "the tag " + tag + "; write the plain value"};
    }
  }

  void add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
           YamlNode::Kind kind, const std::string& text) {
    refuse_extras(mark, tag, anchor);
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.text = text;
    node.quoted = tag == "!";
    place(std::move(node));
  }

  void place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.key.has_value()) {
      node.line = parent.key_line;
      parent.node.members.emplace_back(*parent.key, std::move(node));
      parent.key.reset();
      return;
    }
    if (node.kind != YamlNode::Kind::kScalar) {
      throw Refused{node.line, "a key that is not a word; write key: value"};
    }
    for (const auto& [key, value] : parent.node.members) {
      if (key != node.text) continue;
      throw Refused{node.line, "key \"" + key + "\" is already set in line " +
                                   std::to_string(value.line) + "; remove one of them"};
    }
    parent.key = node.text;
    parent.key_line = node.line;
  }

  std::vector<Open> open_;
  std::optional<YamlNode> root_;
};

Error at(const std::string& file, int line, const std::string& message) {
  return Error{ErrorCode::kInvalidArgument,
               file + ":" + std::to_string(line) + ": " + message, ""};
}

}  // namespace

Result<YamlNode> read_yaml(const std::string& text, const std::string& file_name) {
  if (text.size() > kMaxFileBytes) {
    return at(file_name, 1, "larger than 1 MiB; this is no configuration file");
  }
  TreeBuilder builder;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    std::optional<YamlNode> root = builder.take_root();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      const std::optional<YamlNode> extra = second.take_root();
      return at(file_name, extra ? extra->line : 1, "a second document; write one per file");
    }
    YamlNode empty;
    empty.kind = YamlNode::Kind::kMapping;
    empty.line = 1;
    if (!root.has_value() || root->kind == YamlNode::Kind::kNull) return empty;
    if (root->kind != YamlNode::Kind::kMapping) {
      return at(file_name, root->line, "not a mapping; write \"key: value\" lines");
    }
    return std::move(*root);
  } catch (const Refused& refused) {
    return at(file_name, refused.line, refused.message);
  } catch (const YAML::Exception& error) {
    return at(file_name, error.mark.line + 1, "not YAML: " + error.msg);
  }
}

}  // namespace tandem::config
