#include "ballast/inspect.h"

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "report/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/table.h"
#include "tools/units.h"

namespace ballast::tools {
namespace {

struct InspectFlags {
  std::filesystem::path model;
  bool json = false;
};

std::string attention_line(const ModelSpec& spec) {
  std::string line = std::to_string(spec.heads) + " heads of " + std::to_string(spec.head_size);
  if (spec.kv_heads != spec.heads) line += ", " + std::to_string(spec.kv_heads) + " for keys and values";
  return line + (spec.attention_bias ? ", with bias" : "");
}

std::string rope_line(const RopeSpec& rope) {
  const std::string line = "RoPE, theta " + report::number(rope.theta);
  switch (rope.scaling) {
    case RopeSpec::Scaling::kNone:
      return line;
    case RopeSpec::Scaling::kLinear:
      return line + ", stretched by " + report::number(rope.factor);
    case RopeSpec::Scaling::kLlama3:
      return line + ", stretched by " + report::number(rope.factor) + " (llama3) from " +
             report::number(rope.original_context) + " tokens";
  }
  return line;
}

std::string model_sheet(const ModelSummary& summary) {
  const ModelSpec& spec = summary.spec;
  Table sheet({{}, {}});
  sheet.add_row({"architecture", spec.architecture});
  sheet.add_row({"layers", std::to_string(spec.layers)});
  sheet.add_row({"hidden size", report::count(spec.hidden_size)});
  sheet.add_row({"attention", attention_line(spec)});
  sheet.add_row({"positions", rope_line(spec.rope)});
  sheet.add_row({"MLP size", report::count(spec.mlp_size) + (spec.mlp_bias ? ", with bias" : "")});
  sheet.add_row({"vocabulary", report::count(spec.vocab_size) + " tokens" +
                                   (spec.tied_embeddings ? ", the head is the embedding" : "")});
  sheet.add_row({"context", report::count(spec.context_length) + " tokens"});
  sheet.add_row({"tokenizer", report::printable(summary.tokenizer)});
  sheet.add_row({"parameters", report::count(summary.parameters)});
  sheet.add_row({"tensor files", format_bytes(summary.file_bytes) + ", " + format_fixed(summary.bits_per_weight, 2) +
                                     " bits per weight"});
  return sheet.text();
}

std::string group_table(const ModelSummary& summary) {
  using enum Table::Align;
  Table table({{"tensors"}, {"type"}, {"count", kRight}, {"weights", kRight}, {"size", kRight}});
  for (const TensorGroup& group : summary.groups) {
    table.add_row({report::printable(group.name), group.type, report::count(group.tensors),
                   report::count(group.weights), format_bytes(group.bytes)});
  }
  return table.text();
}

// The JSON of a recipe, as it lies in the model's folder.
std::string recipe_lines(const std::string& recipe) {
  std::istringstream text(recipe);
  std::string lines = "\nThe recipe that made it:\n";
  for (std::string line; std::getline(text, line);) lines += "  " + report::printable(line) + "\n";
  return lines;
}

int run_inspect(const InspectFlags& flags) {
  const ModelSummary summary = inspect(flags.model);
  if (flags.json) {
    print(model_summary_json(summary) + "\n");
    return kExitDone;
  }
  std::string page = model_sheet(summary) + "\n" + group_table(summary);
  if (!summary.recipe.empty()) page += recipe_lines(summary.recipe);
  if (!summary.advice.empty()) page += "\nWhat ballast would do:\n";
  for (const std::string& line : summary.advice) page += "  - " + line + "\n";
  print(page);
  return kExitDone;
}

}  // namespace

void add_inspect(CLI::App& program, Action& action) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = program.add_subcommand("inspect", "Say what a model is made of");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer("Example:\n  ballast inspect SmolLM2-135M");
  command->callback([flags, &action] { action = [flags] { return run_inspect(*flags); }; });
}

}  // namespace ballast::tools
