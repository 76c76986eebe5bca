#include "text/pipeline/post_processor.h"

#include <string>

#include "files/text.h"
#include "text/pipeline/nesting.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

TextFrame read_template(const files::JsonReader& node) {
  TextFrame frame;
  bool after_text = false;
  for (const files::JsonReader& part : node.at("single").elements()) {
    const std::optional<files::JsonReader> token = part.find("SpecialToken");
    if (!token) {
      if (after_text) part.fail("the text is in the template twice");
      part.at("Sequence");
      after_text = true;
      continue;
    }
    const files::JsonReader special = node.at("special_tokens").at(token->at("id").string());
    for (const files::JsonReader& id : special.at("ids").elements()) {
      (after_text ? frame.suffix : frame.prefix).push_back(read_token_id(id));
    }
  }
  if (!after_text) node.at("single").fail("has no place for the text");
  return frame;
}

// Reads ["[SEP]", 102].
int read_named_id(const files::JsonReader& pair) {
  return read_token_id(pair.tuple(2)[1]);
}

TextFrame read_node(const files::JsonReader& node, int depth) {
  check_nesting(node, depth);
  const std::string type = node.text("type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{read_named_id(node.at("cls"))}, {read_named_id(node.at("sep"))}};
  }
  if (type != "Sequence") node.fail("post-processor " + files::in_quotes(type) + " is not supported");
  TextFrame frame;
  for (const files::JsonReader& child : node.at("processors").elements()) {
    const TextFrame outer = read_node(child, depth + 1);
    frame.prefix.insert(frame.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    frame.suffix.insert(frame.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return frame;
}

}  // namespace

TextFrame read_post_processor(const files::JsonReader& node) {
  return read_node(node, 0);
}

}  // namespace ballast::text
