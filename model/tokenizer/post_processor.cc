#include "model/tokenizer/post_processor.h"

#include <string>

#include "model/checkpoint/text.h"
#include "model/tokenizer/vocabulary.h"

namespace ballast::model {
namespace {

constexpr int kMaxDepth = 16;

TextFrame read_template(const CheckedJson& node) {
  TextFrame frame;
  bool after_text = false;
  for (const CheckedJson& part : node.at("single").elements()) {
    const std::optional<CheckedJson> token = part.find("SpecialToken");
    if (!token) {
      if (after_text) part.fail("the text stands twice in the template");
      part.at("Sequence");
      after_text = true;
      continue;
    }
    const CheckedJson special = node.at("special_tokens").at(token->at("id").string());
    for (const CheckedJson& id : special.at("ids").elements()) {
      (after_text ? frame.suffix : frame.prefix).push_back(read_token_id(id));
    }
  }
  if (!after_text) node.at("single").fail("has no place for the text");
  return frame;
}

// ["[SEP]", 102]
int read_named_id(const CheckedJson& pair) {
  const std::vector<CheckedJson> parts = pair.elements();
  if (parts.size() != 2) pair.fail("must be a token and its id");
  return read_token_id(parts[1]);
}

TextFrame read_node(const CheckedJson& node, int depth) {
  if (depth > kMaxDepth) node.fail("nested too deep");
  const std::string& type = node.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{read_named_id(node.at("cls"))}, {read_named_id(node.at("sep"))}};
  }
  if (type != "Sequence") node.fail("post-processor " + in_quotes(type) + " is not supported");
  TextFrame frame;
  for (const CheckedJson& child : node.at("processors").elements()) {
    const TextFrame outer = read_node(child, depth + 1);
    frame.prefix.insert(frame.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    frame.suffix.insert(frame.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return frame;
}

}  // namespace

TextFrame read_post_processor(const CheckedJson& node) {
  return read_node(node, 0);
}

}  // namespace ballast::model
