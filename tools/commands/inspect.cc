#include "ballast/inspect.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/prefix.h"
#include "ballast/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/group_rows.h"
#include "tools/commands/job.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct InspectFlags {
  std::filesystem::path model;
  bool json = false;
  bool verbose = false;
};

std::string biases_line(const BiasSpec& biases) {
  std::string line;
  const auto add = [&](bool flag, const char* name) {
    if (flag) line += (line.empty() ? "" : ", ") + std::string(name);
  };
  add(biases.query, "q");
  add(biases.key, "k");
  add(biases.value, "v");
  add(biases.output_gate, "output gate");
  add(biases.latent, "latent");
  add(biases.mixer_input, "mixer input");
  add(biases.mixer_output, "mixer output");
  add(biases.attention_output, "output");
  add(biases.up, "up");
  add(biases.down, "down");
  add(biases.router, "router");
  add(biases.head, "head");
  return line.empty() ? "none" : line;
}

/// Describes layers with mixers other than attention alone, by name: "3 layers of Mamba 2".
std::string other_mixers(const ModelSpec& spec) {
  std::map<std::string, std::size_t> layers;
  for (const LayerSpec& layer : spec.layers) {
    if (std::holds_alternative<GatedDeltaSpec>(layer.mixer)) ++layers["gated delta net"];
    if (std::holds_alternative<ShortConvolutionSpec>(layer.mixer)) ++layers["short convolution"];
    if (std::holds_alternative<Mamba2Spec>(layer.mixer)) ++layers["Mamba 2"];
    if (std::holds_alternative<ParallelMixersSpec>(layer.mixer)) ++layers["Mamba 2 and attention"];
  }
  std::string line;
  for (const auto& [name, count] : layers) {
    line += (line.empty() ? "" : ", ") + std::to_string(count) + " layers of " + name;
  }
  return line;
}

std::string windows_of(const ModelSpec& spec) {
  std::size_t widest = 0;
  std::size_t layers = 0;
  for (const LayerSpec& layer : spec.layers) {
    const std::size_t window = layer.attention() == nullptr ? 0 : layer.attention()->window;
    if (window > 0) ++layers;
    widest = std::max(widest, window);
  }
  if (layers == 0) return "";
  const std::string sides = spec.causal ? "" : " to either side";
  const std::string line = ", window of " + report::count(widest) + " tokens" + sides;
  return layers < spec.layers.size() ? line + " in " + std::to_string(layers) + " layers" : line;
}

/// Describes the first layer with attention.
std::string attention_line(const ModelSpec& spec) {
  const AttentionSpec* attention = spec.first_attention();
  if (attention == nullptr) return "none";
  std::string line = std::to_string(attention->heads) + " heads of " + std::to_string(attention->head_size);
  if (attention->kv_heads != attention->heads) {
    line += ", " + std::to_string(attention->kv_heads) + " for keys and values";
  }
  for (const LayerSpec& layer : spec.layers) {
    if (layer.latent() == nullptr) continue;
    line += ", values of " + std::to_string(attention->value_size) + ", through latent vectors of " +
            std::to_string(layer.latent()->key_value_rank);
    break;
  }
  if (!spec.causal) line += ", both ways";
  if (attention->query_key_norm) line += ", norm on q and k";
  if (attention->query_key_norm && attention->query_key_norm->kind == HeadNormSpec::Kind::kRmsAllHeads) {
    line += " over all heads";
  }
  if (attention->score_cap > 0) line += ", scores capped at " + report::number(attention->score_cap);
  if (attention->relative_bias) line += ", scores biased by distance";
  if (attention->alibi) line += ", scores that fall with the distance (ALiBi)";
  if (attention->disentangled) line += ", disentangled scores of distances";
  if (attention->sink_logits) line += ", a logit of each head's own in the softmax";
  if (attention->query_key_norm && attention->query_key_norm->after_rotation) line += " after rotation";
  if (attention->query_growth) {
    line += ", queries grow every " + report::number(attention->query_growth->length) + " tokens";
  }
  if (attention->output_gate) line += attention->head_gates ? ", output gate per head" : ", output gate per element";
  return line + windows_of(spec);
}

std::string rope_line(const AttentionSpec& attention) {
  const RopeSpec& rope = *attention.rope;
  std::string line = "RoPE, theta " + report::number(rope.theta);
  if (rope.rotary_size != attention.head_size) line += ", " + std::to_string(rope.rotary_size) + " channels of a head";
  const auto stretched_from = [&](const char* method) {
    return line + ", stretched by " + report::number(rope.factor) + " (" + method + ") from " +
           report::number(rope.original_context) + " tokens";
  };
  switch (rope.scaling) {
    case RopeSpec::Scaling::kNone:
      return line;
    case RopeSpec::Scaling::kLinear:
      return line + ", stretched by " + report::number(rope.factor);
    case RopeSpec::Scaling::kLlama3:
      return stretched_from("llama3");
    case RopeSpec::Scaling::kYarn:
      return stretched_from("yarn");
    case RopeSpec::Scaling::kLongRope:
      return line + ", longrope, read up to " + report::number(rope.original_context) + " tokens";
  }
  return line;
}

/// Describes the kind of positions; if layers differ, with the number of layers of each kind.
std::string positions_line(const ModelSpec& spec) {
  if (spec.learned_positions) return "learned";
  if (spec.sinusoids) return "sines and cosines";
  std::vector<std::pair<std::string, std::size_t>> ways;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec* attention = layer.attention();
    if (attention == nullptr) continue;
    const std::string way = attention->rope ? rope_line(*attention) : "none";
    const auto known = std::ranges::find(ways, way, &std::pair<std::string, std::size_t>::first);
    if (known == ways.end()) {
      ways.emplace_back(way, 1);
    } else {
      ++known->second;
    }
  }
  if (ways.empty()) return "none";
  if (ways.size() == 1) return ways.front().first;
  std::string line;
  for (const auto& [way, layers] : ways) {
    line += (line.empty() ? "" : "; ") + way + " in " + std::to_string(layers) + (layers == 1 ? " layer" : " layers");
  }
  return line;
}

std::string layout_line(const ModelSpec& spec) {
  const std::string norm = spec.norm.kind == NormSpec::Kind::kRms ? "RMSNorm" : "LayerNorm";
  switch (spec.layout) {
    case BlockLayout::kPostNorm:
      return norm + " after attention and MLP";
    case BlockLayout::kOutputNorm:
      return norm + " of what attention and MLP add";
    case BlockLayout::kParallel:
      return norm + " before attention and MLP, which are parallel";
    case BlockLayout::kParallelShared:
      return norm + " before attention and MLP, which share it";
    default:
      return norm + " before attention and MLP";
  }
}

std::string block_line(const ModelSpec& spec) {
  return layout_line(spec) + (spec.post_norms ? ", and of what both add" : "");
}

std::string layers_line(const ModelSpec& spec) {
  if (!spec.encoder) return std::to_string(spec.layers.size());
  return std::to_string(spec.layers.size()) + ": " + std::to_string(spec.encoder->layers) + " of an encoder, then " +
         std::to_string((spec.layers.size() - spec.encoder->layers) / 2) + " blocks of a decoder of two each";
}

std::string context_line(const ModelSpec& spec) {
  std::string line = report::count(spec.context_length) + " tokens";
  if (spec.long_context > 0) line += ", or " + report::count(spec.long_context) + " with another rotation";
  return line;
}

std::string mlp_line(const ModelSpec& spec) {
  const auto routed = [](const LayerSpec& layer) { return layer.mlp.experts.has_value(); };
  const auto plain = [](const LayerSpec& layer) { return layer.mlp.exists() && !layer.mlp.experts; };
  const auto first = std::ranges::find_if(spec.layers, routed);
  const auto first_plain = std::ranges::find_if(spec.layers, plain);
  if (first == spec.layers.end()) {
    if (first_plain == spec.layers.end()) return "none";
    return report::count(first_plain->mlp.size) + (first_plain->mlp.gated ? ", gated" : "");
  }
  const ExpertSpec& experts = *first->mlp.experts;
  std::string line = std::to_string(experts.count) + " experts of " + report::count(experts.size) + ", " +
                     std::to_string(experts.per_token) + " per token";
  if (experts.shared_size > 0) line += ", and a shared one of " + report::count(experts.shared_size);
  if (const auto others = std::ranges::count_if(spec.layers, plain); others > 0) {
    const bool leading = first - spec.layers.begin() == others;
    line += "; " + report::count(first_plain->mlp.size) + (leading ? " in the first " : " in ") +
            std::to_string(others) + " layers";
  }
  return line;
}

/// Returns "3 labels of texts: negative, neutral, positive".
std::string classifier_line(const ClassifierSpec& classifier) {
  constexpr std::size_t kMostNamed = 6;
  const std::size_t count = classifier.labels.size();
  std::string line = report::count(count) + (count == 1 ? " label of " : " labels of ") +
                     (classifier.of_tokens ? "tokens" : "texts") + ": ";
  for (std::size_t i = 0; i < std::min(count, kMostNamed); ++i) {
    line += (i == 0 ? "" : ", ") + report::printable(classifier.labels[i]);
  }
  return count > kMostNamed ? line + ", ..." : line;
}

std::string model_sheet(const ModelSummary& summary) {
  const ModelSpec& spec = summary.spec;
  Table sheet({{}, {}});
  sheet.add_row({"architecture", spec.architecture});
  sheet.add_row({"layers", layers_line(spec)});
  const std::string embedding =
      spec.embedding_size > 0 ? ", projected from an embedding of " + report::count(spec.embedding_size) : "";
  sheet.add_row({"hidden size", report::count(spec.hidden_size) + embedding});
  sheet.add_row({"attention", attention_line(spec)});
  if (const std::string others = other_mixers(spec); !others.empty()) sheet.add_row({"other mixers", others});
  sheet.add_row({"positions", positions_line(spec)});
  sheet.add_row({"block", block_line(spec)});
  sheet.add_row({"MLP size", mlp_line(spec)});
  sheet.add_row({"biases", biases_line(spec.biases)});
  sheet.add_row({"vocabulary", report::count(spec.vocab_size) + " tokens" +
                                   (!spec.has_head         ? ", no head"
                                    : spec.tied_embeddings ? ", the head is the embedding"
                                                           : "")});
  if (spec.classifier) sheet.add_row({"classifier", classifier_line(*spec.classifier)});
  sheet.add_row({"context", context_line(spec)});
  if (!summary.prefix.empty()) sheet.add_row({"prefix", "tokens " + prefix_name({.tokens = summary.prefix})});
  sheet.add_row({"tokenizer", report::printable(summary.tokenizer)});
  sheet.add_row({"parameters", report::count(summary.parameters)});
  sheet.add_row({"tensor files", text::format_bytes(summary.file_bytes) + ", " +
                                     format_fixed(summary.bits_per_weight, 2) + " bits per weight"});
  return sheet.text();
}

std::string group_table(const ModelSummary& summary, bool verbose) {
  std::vector<GroupRow> all;
  for (const TensorGroup& group : summary.groups) {
    all.push_back({.name = group.name,
                   .format = group.type,
                   .tensors = group.tensors,
                   .weights = group.weights,
                   .least_bytes = group.bytes,
                   .most_bytes = group.bytes});
  }
  constexpr std::size_t kMostRows = 32;  // the page needs a row for each name
  const std::vector<GroupRow> shown = verbose ? all : condensed(all, kMostRows);
  using enum Table::Align;
  Table table({{"tensors"}, {"type"}, {"count", kRight}, {"weights", kRight}, {"size", kRight}});
  for (const GroupRow& row : shown) {
    table.add_row({report::printable(row.name), row.format_text(), report::count(row.tensors),
                   report::count(row.weights), text::format_bytes(row.most_bytes)});
  }
  return table.text() + left_out_text(shown.size(), all.size());
}

// Returns the JSON of the recipe in the model's folder.
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
  std::string page = model_sheet(summary) + "\n" + group_table(summary, flags.verbose);
  if (!summary.recipe.empty()) page += recipe_lines(summary.recipe);
  if (!summary.advice.empty()) page += "\nWhat ballast would do:\n";
  for (const std::string& line : summary.advice) page += "  - " + line + "\n";
  print(page);
  return kExitDone;
}

}  // namespace

void add_inspect(CLI::App& program, Action& action) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = program.add_subcommand("inspect", "Print the parts of a model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  add_page_flags(*command, flags->json, flags->verbose);
  command->footer("Example:\n  ballast inspect SmolLM2-135M");
  command->callback([flags, &action] { action = with_local_models(flags, run_inspect); });
}

}  // namespace ballast::tools
