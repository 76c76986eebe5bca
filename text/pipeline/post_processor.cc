#include "text/pipeline/post_processor.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "files/text.h"
#include "text/pipeline/nesting.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using PartKind = PairPart::Kind;

std::uint8_t read_type(const files::JsonReader& part) {
  const std::optional<files::JsonReader> type = part.find("type_id");
  return type ? static_cast<std::uint8_t>(type->integer<int>(0, UINT8_MAX)) : std::uint8_t{0};
}

std::vector<PairPart> read_pair(const files::JsonReader& node) {
  std::vector<PairPart> pair;
  for (const files::JsonReader& part : node.at("pair").elements()) {
    if (const std::optional<files::JsonReader> token = part.find("SpecialToken")) {
      const files::JsonReader special = node.at("special_tokens").at(token->at("id").string());
      for (const files::JsonReader& id : special.at("ids").elements()) {
        pair.push_back({.kind = PartKind::kToken, .id = read_token_id(id), .type = read_type(*token)});
      }
      continue;
    }
    const files::JsonReader sequence = part.at("Sequence");
    const PartKind kind = sequence.text("id") == "A" ? PartKind::kFirst : PartKind::kSecond;
    pair.push_back({.kind = kind, .id = 0, .type = read_type(sequence)});
  }
  const auto once = [&](PartKind kind) { return std::ranges::count(pair, kind, &PairPart::kind) == 1; };
  if (!once(PartKind::kFirst) || !once(PartKind::kSecond)) node.at("pair").fail("must have each of two texts once");
  return pair;
}

TokenTemplate read_template(const files::JsonReader& node) {
  TokenTemplate frame;
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
  const std::optional<files::JsonReader> pair = node.find("pair");
  if (pair && !pair->json().empty()) frame.pair = read_pair(node);
  return frame;
}

// Reads ["[SEP]", 102].
int read_named_id(const files::JsonReader& pair) {
  return read_token_id(pair.tuple(2)[1]);
}

TokenTemplate read_node(const files::JsonReader& node, int depth) {
  check_nesting(node, depth);
  const std::string type = node.text("type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int cls = read_named_id(node.at("cls"));
    const int sep = read_named_id(node.at("sep"));
    const bool typed = type == "BertProcessing";
    const std::uint8_t second = typed ? 1 : 0;
    TokenTemplate frame{.prefix = {cls}, .suffix = {sep}, .pair = {}};
    frame.pair = {{.id = cls}, {.kind = PartKind::kFirst}, {.id = sep}};
    if (!typed) frame.pair.push_back({.id = sep});
    frame.pair.insert(frame.pair.end(), {{.kind = PartKind::kSecond, .type = second}, {.id = sep, .type = second}});
    return frame;
  }
  if (type != "Sequence") node.fail("post-processor " + files::in_quotes(type) + " is not supported");
  TokenTemplate frame;
  for (const files::JsonReader& child : node.at("processors").elements()) {
    const TokenTemplate outer = read_node(child, depth + 1);
    frame.prefix.insert(frame.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    frame.suffix.insert(frame.suffix.end(), outer.suffix.begin(), outer.suffix.end());
    if (!outer.pair.empty()) frame.pair = outer.pair;
  }
  return frame;
}

}  // namespace

std::vector<PairPart> pair_of_frames(const TokenTemplate& frame) {
  std::vector<PairPart> pair;
  for (const PartKind text : {PartKind::kFirst, PartKind::kSecond}) {
    const std::uint8_t type = text == PartKind::kSecond ? 1 : 0;
    for (const int id : frame.prefix) pair.push_back({.kind = PartKind::kToken, .id = id, .type = type});
    pair.push_back({.kind = text, .id = 0, .type = type});
    for (const int id : frame.suffix) pair.push_back({.kind = PartKind::kToken, .id = id, .type = type});
  }
  return pair;
}

std::vector<PairPart> joined_pair(const TokenTemplate& frame) {
  std::vector<PairPart> pair;
  for (const int id : frame.prefix) pair.push_back({.kind = PartKind::kToken, .id = id});
  pair.push_back({.kind = PartKind::kFirst});
  pair.push_back({.kind = PartKind::kSecond});
  for (const int id : frame.suffix) pair.push_back({.kind = PartKind::kToken, .id = id});
  return pair;
}

TokenTemplate read_post_processor(const files::JsonReader& node) {
  return read_node(node, 0);
}

}  // namespace ballast::text
