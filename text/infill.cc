#include "text/infill.h"

#include <array>
#include <cstdint>

#include "text/byte_range.h"
#include "text/reply/reply_format.h"

namespace ballast::text {
namespace {

/// The tokens of one family of models.
struct InfillTokens {
  std::string_view before;
  std::string_view after;
  std::string_view middle;  ///< empty: the text in the gap follows the one before it, which is then last
};

constexpr std::array<InfillTokens, 6> kInfillFamilies = {{
    {.before = "<|fim_prefix|>", .after = "<|fim_suffix|>", .middle = "<|fim_middle|>"},  // Qwen, CodeGemma
    {.before = "<fim_prefix>", .after = "<fim_suffix>", .middle = "<fim_middle>"},        // StarCoder, Granite
    {.before = "<fim-prefix>", .after = "<fim-suffix>", .middle = "<fim-middle>"},        // SantaCoder
    {.before = "<｜fim▁begin｜>", .after = "<｜fim▁hole｜>", .middle = "<｜fim▁end｜>"},  // DeepSeek
    {.before = "▁<PRE>", .after = "▁<SUF>", .middle = "▁<MID>"},                          // Code Llama
    {.before = "[PREFIX]", .after = "[SUFFIX]", .middle = ""},                            // Codestral
}};

constexpr std::array<std::string_view, 9> kInfillEnds = {"<|endoftext|>", "<|fim_pad|>", "<|repo_name|>",
                                                         "<|file_sep|>",  "<|cursor|>",  "<file_sep>",
                                                         "<fim_pad>",     "▁<EOT>",      "<|file_separator|>"};

constexpr std::array<std::string_view, 3> kInfillFileMarks = {"<|file_sep|>", "<file_sep>", "<|file_separator|>"};

struct FamilyIds {
  int before;
  int after;
  std::optional<int> middle;
};

std::optional<FamilyIds> find_family(const Tokenizer& tokenizer) {
  for (const InfillTokens& family : kInfillFamilies) {
    const std::optional<int> before = find_token(tokenizer, family.before);
    const std::optional<int> after = find_token(tokenizer, family.after);
    const std::optional<int> middle = family.middle.empty() ? std::nullopt : find_token(tokenizer, family.middle);
    if (before && after && (middle || family.middle.empty())) return FamilyIds{*before, *after, middle};
  }
  return std::nullopt;
}

class PromptWriter {
 public:
  PromptWriter(const Tokenizer& tokenizer, std::size_t most) : tokenizer_(tokenizer), most_(most) {}

  void add_token(int id) { ids_.push_back(id); }

  void add_text(std::string_view text) {
    if (text.empty() || ids_.size() > most_) return;
    const ByteRange whole = {.begin = 0, .end = text.size()};
    const std::vector<int> ids = tokenizer_.encode(text, std::span(&whole, 1), most_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  /// Adds files before the one with the gap: each after the vocabulary's mark of a file, else one after the other.
  void add_files(std::span<const InfillFile> files) {
    std::optional<int> mark;
    for (const std::string_view text : kInfillFileMarks) {
      if (!mark) mark = find_token(tokenizer_, text);
    }
    for (const InfillFile& file : files) {
      if (mark) add_token(*mark);
      add_text(file.name + "\n" + file.text + "\n");
    }
    if (mark && !files.empty()) add_token(*mark);
  }

  std::vector<int> take() { return std::move(ids_); }

 private:
  const Tokenizer& tokenizer_;
  std::size_t most_;
  std::vector<int> ids_;
};

}  // namespace

std::optional<InfillPrompt> make_infill_prompt(const Tokenizer& tokenizer, const InfillRequest& request,
                                               std::size_t most) {
  const std::optional<FamilyIds> family = find_family(tokenizer);
  if (!family) return std::nullopt;
  PromptWriter writer(tokenizer, most);
  writer.add_files(request.files);
  if (family->middle) {
    writer.add_token(family->before);
    writer.add_text(request.before);
    writer.add_token(family->after);
    writer.add_text(request.after);
    writer.add_token(*family->middle);
  } else {
    writer.add_token(family->after);
    writer.add_text(request.after);
    writer.add_token(family->before);
    writer.add_text(request.before);
  }
  writer.add_text(request.begun);
  InfillPrompt prompt = {.ids = writer.take(), .ends = {}};
  for (const std::string_view text : kInfillEnds) {
    if (const std::optional<int> id = find_token(tokenizer, text)) prompt.ends.push_back(*id);
  }
  return prompt;
}

}  // namespace ballast::text
