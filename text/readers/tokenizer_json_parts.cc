#include "text/readers/tokenizer_json_parts.h"

#include <string_view>

#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using nlohmann::json;

json whole(json added, json normalizer, json pre_tokenizer, json post_processor, json decoder, json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", std::move(post_processor)},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

json bpe(json vocab, json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

json replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

json prepend_space_mark() {
  return {{"type", "Prepend"}, {"prepend", kSpaceMark}};
}

json drop_first_space() {
  return {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
}

json sequence(const char* members, json list) {
  return {{"type", "Sequence"}, {members, std::move(list)}};
}

}  // namespace

json added_token(std::size_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

json frame_template(const std::vector<std::pair<std::string, json>>& prefix,
                    const std::vector<std::pair<std::string, json>>& suffix) {
  json special = json::object();
  json single = json::array();
  json second = json::array({{{"Sequence", {{"id", "B"}, {"type_id", 1}}}}});
  const auto add = [&](const std::pair<std::string, json>& token) {
    const auto& [content, id] = token;
    single.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    special[content] = {{"id", content}, {"ids", json::array({id})}, {"tokens", json::array({content})}};
  };
  for (const auto& token : prefix) add(token);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const auto& token : suffix) {
    add(token);
    second.push_back({{"SpecialToken", {{"id", token.first}, {"type_id", 1}}}});
  }
  json pair = single;
  pair.insert(pair.end(), second.begin(), second.end());
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

json byte_level_tokenizer_json(PreTokenizerFamily family, json vocab, json merges, json added, json post_processor) {
  json model = bpe(std::move(vocab), std::move(merges));
  model["ignore_merges"] = family.ignore_merges;
  json decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return whole(std::move(added), std::move(family.normalizer), std::move(family.pre_tokenizer),
               std::move(post_processor), std::move(decoder), std::move(model));
}

json byte_fallback_tokenizer_json(bool adds_space, const json& unknown, json vocab, json merges, json added,
                                  json post_processor) {
  json normalizers = json::array();
  json decoders = json::array({replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (adds_space) {
    normalizers.push_back(prepend_space_mark());
    decoders.push_back(drop_first_space());
  }
  normalizers.push_back(replace(" ", kSpaceMark));
  json model = bpe(std::move(vocab), std::move(merges));
  model["unk_token"] = unknown;
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  return whole(std::move(added), sequence("normalizers", std::move(normalizers)), nullptr, std::move(post_processor),
               sequence("decoders", std::move(decoders)), std::move(model));
}

json word_piece_tokenizer_json(const BertNormalization& normalization, const std::string& unknown, json vocab,
                               json added, json post_processor) {
  json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", normalization.handle_chinese_chars},
                     {"strip_accents", normalization.strip_accents},
                     {"lowercase", normalization.lowercase}};
  json model = {{"type", "WordPiece"},
                {"unk_token", unknown},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", std::move(vocab)}};
  return whole(std::move(added), std::move(normalizer), {{"type", "BertPreTokenizer"}}, std::move(post_processor),
               {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}, std::move(model));
}

json unigram_tokenizer_json(const SpaceRules& spaces, const std::string& charsmap, std::size_t unknown, bool bytes,
                            json vocab, json added, json post_processor) {
  const auto replace_all_of = [](std::string_view pattern, std::string_view to) -> json {
    return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", to}};
  };
  json normalizers = json::array();
  json decoders = json::array({replace(kSpaceMark, " ")});
  if (!charsmap.empty()) normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}});
  if (spaces.merge) {
    normalizers.push_back(replace_all_of(" {2,}", " "));
    normalizers.push_back(replace_all_of(R"(\A | \z)", ""));
  }
  if (spaces.prefix) normalizers.push_back(prepend_space_mark());
  normalizers.push_back(replace(" ", kSpaceMark));
  if (bytes) {
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
  }
  if (spaces.prefix) decoders.push_back(drop_first_space());
  json split = {
      {"type", "Split"}, {"pattern", {{"String", kSpaceMark}}}, {"behavior", "MergedWithNext"}, {"invert", false}};
  json model = {{"type", "Unigram"}, {"unk_id", unknown}, {"byte_fallback", bytes}, {"vocab", std::move(vocab)}};
  return whole(std::move(added), sequence("normalizers", std::move(normalizers)),
               spaces.split ? std::move(split) : json(nullptr), std::move(post_processor),
               sequence("decoders", std::move(decoders)), std::move(model));
}

}  // namespace ballast::text
