#include "text/language_tokens.h"

#include <utility>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::text {

LanguageTokens::LanguageTokens(Options options, const std::string& context) : options_(std::move(options)) {
  const auto check = [&](const char* field, const std::string& language) {
    if (options_.ids.contains(language)) return;
    throw Error(context, files::concat(field, " is ", files::in_quotes(language),
                                       ", which has no token; set one of: ", joined_codes()));
  };
  check("src_lang", options_.default_source);
  if (!options_.default_target.empty()) check("tgt_lang", options_.default_target);
}

std::vector<std::string> LanguageTokens::languages() const {
  std::vector<std::string> codes;
  for (const auto& [code, id] : options_.ids) codes.push_back(code);
  return codes;
}

TextFrame LanguageTokens::source_frame(std::string_view language) const {
  const int id = id_of(language.empty() ? options_.default_source : language);
  if (options_.position == Position::kBeforeText) return {.before = {id}, .after = {options_.end_token}};
  return {.before = {}, .after = {options_.end_token, id}};
}

std::vector<int> LanguageTokens::target_start(std::string_view language) const {
  if (language.empty()) language = options_.default_target;
  return language.empty() ? std::vector<int>() : std::vector{id_of(language)};
}

int LanguageTokens::id_of(std::string_view language) const {
  const auto found = options_.ids.find(language);
  if (found != options_.ids.end()) return found->second;
  throw Error("language " + files::in_quotes(language), "is unknown to the tokenizer; known are: " + joined_codes());
}

std::string LanguageTokens::joined_codes() const {
  std::string joined;
  for (const auto& [code, id] : options_.ids) joined += (joined.empty() ? "" : ", ") + code;
  return joined.empty() ? "none" : joined;
}

}  // namespace ballast::text
