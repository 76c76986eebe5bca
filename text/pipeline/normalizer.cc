#include "text/pipeline/normalizer.h"

#include <algorithm>
#include <memory>

#include "files/text.h"
#include "files/utf8.h"
#include "text/pipeline/nesting.h"
#include "text/pipeline/token_decoder.h"
#include "text/unicode/base64.h"
#include "text/unicode/charsmap.h"
#include "text/unicode/regex.h"
#include "text/unicode/text_transforms.h"

namespace ballast::text {
namespace {

std::string replace_matches(const Regex& regex, std::string_view text, std::string_view content) {
  std::string result;
  std::size_t done = 0;
  std::size_t search = 0;
  while (search <= text.size()) {
    const std::optional<Regex::Match> match = regex.find(text, search);
    if (!match) break;
    result.append(text.substr(done, match->begin - done)).append(content);
    done = match->end;
    search = match->end;
    if (match->begin == match->end) search += search < text.size() ? files::utf8_step(text, search).length : 1;
  }
  return result.append(text.substr(done));
}

}  // namespace

Normalizer::Normalizer(const std::optional<files::JsonReader>& node) {
  if (node) add_node(*node, 0);
}

void Normalizer::add_node(const files::JsonReader& node, int depth) {
  check_nesting(node, depth, steps_.size());
  const std::string type = node.text("type");
  const auto add_form = [&](UnicodeForm form) {
    steps_.push_back({[form](std::string_view text) { return to_unicode_form(text, form); }, false});
  };
  if (type == "Sequence") {
    for (const files::JsonReader& child : node.at("normalizers").elements()) add_node(child, depth + 1);
  } else if (type == "NFC") {
    add_form(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    add_form(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    add_form(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    add_form(UnicodeForm::kNfkd);
  } else if (type == "Lowercase") {
    steps_.push_back({lowercase});
  } else if (type == "StripAccents") {
    steps_.push_back({remove_marks, false});
  } else if (type == "Strip") {
    add_strip(node);
  } else if (type == "Prepend") {
    add_prepend(node);
  } else if (type == "Replace") {
    add_replace(node);
  } else if (type == "Precompiled") {
    add_charsmap(node.at("precompiled_charsmap"));
  } else if (type == "BertNormalizer") {
    add_bert(node);
  } else {
    node.fail("normalizer " + files::in_quotes(type) + " is not supported");
  }
}

void Normalizer::add_strip(const files::JsonReader& node) {
  const bool left = node.flag("strip_left", true);
  const bool right = node.flag("strip_right", true);
  steps_.push_back({[left, right](std::string_view text) { return std::string(strip(text, left, right)); }});
}

void Normalizer::add_prepend(const files::JsonReader& node) {
  steps_.push_back({[content = node.at("prepend").string()](std::string_view text) {
    return text.empty() ? std::string() : content + std::string(text);
  }});
}

void Normalizer::add_replace(const files::JsonReader& node) {
  const files::JsonReader pattern = node.at("pattern");
  const std::string content = node.at("content").string();
  if (const std::optional<files::JsonReader> literal = pattern.find("String")) {
    if (literal->string().empty()) literal->fail("is empty");
    steps_.push_back(
        {[from = literal->string(), content](std::string_view text) { return replace_all(text, from, content); }});
    return;
  }
  const auto regex =
      std::make_shared<const Regex>(Regex::from_pattern(pattern.at("Regex").string(), pattern.context()));
  steps_.push_back({[regex, content](std::string_view text) { return replace_matches(*regex, text, content); }});
}

void Normalizer::add_charsmap(const files::JsonReader& base64) {
  const std::optional<std::string> bytes = decode_base64(base64.string());
  if (!bytes) base64.fail("is not base64");
  const auto map = std::make_shared<const Charsmap>(*bytes, base64.context());
  steps_.push_back({[map](std::string_view text) { return map->normalize(text); }});
}

void Normalizer::add_bert(const files::JsonReader& node) {
  const bool lower = node.flag("lowercase", true);
  if (node.flag("clean_text", true)) steps_.push_back({clean_text});
  if (node.flag("handle_chinese_chars", true)) steps_.push_back({space_ideographs, false});
  if (node.flag("strip_accents", lower)) {
    steps_.push_back({[](std::string_view text) { return to_unicode_form(text, UnicodeForm::kNfd); }, false});
    steps_.push_back({remove_nonspacing_marks, false});
  }
  if (lower) steps_.push_back({lowercase});
}

std::string_view Normalizer::normalize(std::string_view text, std::string& storage) const {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  bool ascii = std::ranges::all_of(text, is_ascii);
  for (const Step& step : steps_) {
    if (ascii && !step.changes_ascii) continue;
    std::string result = step.apply(text);
    storage.swap(result);
    text = storage;
    ascii = std::ranges::all_of(text, is_ascii);
  }
  return text;
}

}  // namespace ballast::text
