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
  const auto replace = [](std::string_view from, std::string_view to) -> json {
    return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  json normalizers = json::array();
  json decoders = json::array({replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (adds_space) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(replace(" ", kSpaceMark));
  json model = bpe(std::move(vocab), std::move(merges));
  model["unk_token"] = unknown;
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  return whole(std::move(added), {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}, nullptr,
               std::move(post_processor), {{"type", "Sequence"}, {"decoders", std::move(decoders)}}, std::move(model));
}

}  // namespace ballast::text
