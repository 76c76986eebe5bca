#include "eval/questions.h"

#include <algorithm>
#include <optional>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/text_file.h"

namespace ballast::eval {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

Question parse_question(std::string_view line, std::string location) {
  const nlohmann::json value = files::parse_strict_json(line, location);
  const files::JsonReader entry(value, location);
  Question question;
  question.text = entry.at("question").string();
  const files::JsonReader choices = entry.at("choices");
  for (const files::JsonReader& choice : choices.elements()) {
    question.choices.push_back(choice.string());
    if (question.choices.back().empty()) choice.fail("is empty");
  }
  if (question.choices.size() < 2) choices.fail("must be at least two");
  const files::JsonReader answer = entry.at("answer");
  const std::int64_t index = answer.integer();
  if (index < 0 || static_cast<std::uint64_t>(index) >= question.choices.size()) {
    answer.fail(files::concat("is ", index, ", but must be from 0 to ", question.choices.size() - 1));
  }
  question.answer = static_cast<std::size_t>(index);
  question.location = std::move(location);
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& file) {
  const std::string text = files::read_text_file(file);
  std::vector<Question> questions;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(kWhiteSpace) == std::string_view::npos) continue;
    questions.push_back(parse_question(line, files::concat(file.string(), ":", number)));
  }
  if (questions.empty()) throw Error(file.string(), "holds no questions");
  return questions;
}

ContinuationIds encode_continuation(const text::Tokenizer& tokenizer, std::string_view context,
                                    std::string_view continuation, const std::string& location) {
  const std::size_t kept = context.find_last_not_of(kWhiteSpace) + 1;  // 0 if there is nothing else
  const std::string whole = std::string(context) + std::string(continuation);
  const auto encode = [&](std::string_view text) {
    std::vector<int> ids = tokenizer.leading_special_tokens();
    const std::vector<int> more = tokenizer.encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  ContinuationIds ids;
  ids.context = encode(context.substr(0, kept));
  const std::vector<int> both = encode(whole);
  if (both.size() <= ids.context.size()) {
    throw Error(location, "the choice " + files::in_quotes(continuation) + " adds no token to the question");
  }
  ids.continuation.assign(both.begin() + static_cast<std::ptrdiff_t>(ids.context.size()), both.end());
  if (ids.context.empty()) {
    const std::optional<int> first = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
    if (!first) throw Error(location, "the question is empty, and the model has no token that begins a text");
    ids.context.push_back(first.value());
  }
  return ids;
}

}  // namespace ballast::eval
