#include "calib/prefix.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "model/source/prefix.h"
#include "text/subword/vocabulary.h"
#include "text/tokenizer.h"

namespace ballast {

std::string prefix_name(const CachedPrefix& prefix) {
  if (prefix.automatic) return "auto";
  if (prefix.tokens.empty()) return "none";
  std::string name;
  for (const int id : prefix.tokens) name += (name.empty() ? "" : ",") + std::to_string(id);
  return name;
}

CachedPrefix parse_prefix(std::string_view name, std::string_view context) {
  CachedPrefix prefix;
  if (name == "none") return prefix;
  if (name == "auto") return {.automatic = true};
  const char* next = name.data();
  const char* end = next + name.size();
  while (true) {
    int id = 0;
    const auto [stop, error] = std::from_chars(next, end, id);
    if (error != std::errc{} || id < 0 || (stop != end && *stop != ',')) {
      throw Error(std::string(context), "'" + std::string(name) + "' must be none, auto or token ids, like 198,0");
    }
    prefix.tokens.push_back(id);
    if (stop == end) return prefix;
    next = stop + 1;
  }
}

namespace calib {

std::size_t most_tokens(const CachedPrefix& prefix) {
  return prefix.automatic ? kMostPrefixTokens : prefix.tokens.size();
}

std::vector<int> fixed_prefix(const model::ModelSource& source, const CachedPrefix& asked) {
  const std::string context = source.checkpoint().path().string();
  const std::vector<int>& own = source.prefix_tokens();
  if (!own.empty()) {
    if (asked.none() || asked.automatic || asked.tokens == own) return own;
    throw Error(context, "has the prefix " + prefix_name({.tokens = own}) + " already: start from the original");
  }
  if (!asked.none()) model::check_prefix(source.spec(), asked.tokens, context);
  return asked.tokens;
}

std::vector<int> massive_prefix(const model::ModelSource& source, const Statistics& statistics,
                                const std::string& context) {
  if (statistics.massive_tokens.empty()) {
    throw Error(context, "no token is massive, so there is nothing for a prefix to take: leave it out");
  }
  std::size_t massive = 0;
  for (const MassiveToken& token : statistics.massive_tokens) massive += token.samples;
  std::size_t count = std::min((massive + statistics.samples - 1) / statistics.samples, kMostPrefixTokens);
  const bool first = std::ranges::find(statistics.massive_tokens, MassiveToken::kFirst, &MassiveToken::token) !=
                     statistics.massive_tokens.end();
  const int begin = first ? first_token(source) : MassiveToken::kFirst;
  std::vector<int> tokens;
  if (first) --count;
  for (const MassiveToken& token : statistics.massive_tokens) {
    if (tokens.size() < count && token.token != MassiveToken::kFirst && token.token != begin) {
      tokens.push_back(token.token);
    }
  }
  if (first) tokens.push_back(begin);
  model::check_prefix(source.spec(), tokens, context);
  return tokens;
}

int first_token(const model::ModelSource& source) {
  const auto tokenizer = text::load_tokenizer(source.checkpoint());
  if (tokenizer != nullptr && tokenizer->bos()) return *tokenizer->bos();
  // A token that the tokenizer does not add before texts, but with which the model was trained.
  const std::vector<int> begins =
      text::read_token_ids(files::JsonReader(source.config(), source.checkpoint().path().string()), "bos_token_id");
  const bool has_row = !begins.empty() && static_cast<std::size_t>(begins.front()) < source.spec().vocab_size;
  if (has_row && (tokenizer == nullptr || !tokenizer->token_bytes(begins.front()).empty())) return begins.front();
  if (tokenizer != nullptr && tokenizer->eos()) return *tokenizer->eos();
  const std::vector<int>& stops = source.spec().stop_tokens;
  const bool known = !stops.empty() && static_cast<std::size_t>(stops.front()) < source.spec().vocab_size;
  return known ? stops.front() : 0;
}

}  // namespace calib

}  // namespace ballast
