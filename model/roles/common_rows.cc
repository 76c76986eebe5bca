#include "model/roles/common_rows.h"

#include <array>
#include <cstdint>

namespace ballast::model {

namespace {

using Kind = RoleRow::Kind;
using Place = RoleRow::Place;

MatrixShape vocabulary(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return {spec.vocab_size, spec.embedding_channels()};
}

MatrixShape embedding_vector(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return {1, spec.embedding_channels()};
}

MatrixShape hidden_vector(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return {1, spec.hidden_size};
}

std::size_t token_input_size(const ModelSpec& spec) {
  return spec.token_inputs ? spec.token_inputs->size : 0;
}
bool has_token_inputs(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return spec.token_inputs.has_value();
}

bool has_head_transform(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return spec.head_transform.has_value();
}

bool has_classifier(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return spec.stores_classifier();
}
bool has_classifier_transform(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return spec.classifier && spec.classifier->transform;
}

const char* activation_follows(const LayerSpec& /*layer*/) {
  return "the activation follows";
}

FoldLegality adds_to_stream(const ModelSpec& /*spec*/, const LayerSpec& /*layer*/) {
  return {false, "what it writes is added to the residual stream"};
}

FoldLegality writes_whole_stream(const ModelSpec& /*spec*/, const LayerSpec& /*layer*/) {
  return {false, "it writes the residual stream itself, which all blocks add to"};
}

FoldLegality meets_table_row(const ModelSpec& /*spec*/, const LayerSpec& /*layer*/) {
  return {false, "a row of a table is added to what it writes"};
}

FoldLegality read_by_head(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  if (spec.tied_embeddings) {
    return {false, "the head is the embedding, which is also read without this norm (--untie-head)"};
  }
  return {true, "only the head reads it"};
}

FoldLegality read_after_blocks(const ModelSpec& spec, const LayerSpec& layer) {
  if (!spec.has_head) return {false, "what it writes is what the model gives"};
  if (spec.head_transform) return {true, "only the head's transform reads it"};
  return read_by_head(spec, layer);
}

bool is_draft_head(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return spec.draft_head;
}

constexpr RoleRow draft_norm(Role role) {
  return {.role = role, .kind = Kind::kNorm, .place = Place::kBack, .shape = hidden_vector, .present = is_draft_head};
}

MatrixShape positions(const ModelSpec& spec, const LayerSpec& /*layer*/) {
  return {spec.first_position + spec.context_length, spec.embedding_channels()};
}

constexpr std::array<RoleRow, 23> kOuterRows{{
    {.role = Role::kEmbedding, .kind = Kind::kTable, .place = Place::kFront, .shape = vocabulary},
    {.role = Role::kPositionEmbedding,
     .kind = Kind::kTable,
     .place = Place::kFront,
     .shape = positions,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.learned_positions; }},
    {.role = Role::kEncoderPositionEmbedding,
     .kind = Kind::kTable,
     .place = Place::kFront,
     .shape = positions,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.encoder && spec.learned_positions; }},
    {.role = Role::kEncoderEmbeddingNorm,
     .kind = Kind::kNorm,
     .place = Place::kFront,
     .shape = hidden_vector,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.encoder && spec.embedding_norm; },
     .read_by_linears_only = writes_whole_stream},
    {.role = Role::kTokenTypeEmbedding,
     .kind = Kind::kTable,
     .place = Place::kFront,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{spec.token_types, spec.embedding_channels()}; },
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.token_types > 0; }},
    {.role = Role::kEmbeddingNorm,
     .kind = Kind::kNorm,
     .place = Place::kFront,
     .shape = embedding_vector,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.embedding_norm; },
     .read_by_linears_only = [](const ModelSpec& spec, const LayerSpec& layer) -> FoldLegality {
       if (spec.embedding_size > 0) return {false, "the embedding's projection is kept as it is"};
       return writes_whole_stream(spec, layer);
     }},
    {.role = Role::kEmbeddingProjection,
     .place = Place::kFront,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{spec.hidden_size, spec.embedding_channels()}; },
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.embedding_size > 0; },
     .always_has_bias = true,
     .keeps_16_bits = true,
     .why_bias_stays = [](const LayerSpec&) { return "it is added to what the first block reads"; }},
    {.role = Role::kTokenInputTable,
     .kind = Kind::kTable,
     .place = Place::kFront,
     .shape =
         [](const ModelSpec& spec, const LayerSpec&) {
           return MatrixShape{spec.vocab_size, spec.layers.size() * token_input_size(spec)};
         },
     .present = has_token_inputs},
    {.role = Role::kTokenInputProjection,
     .place = Place::kFront,
     .shape =
         [](const ModelSpec& spec, const LayerSpec&) {
           return MatrixShape{spec.layers.size() * token_input_size(spec), spec.hidden_size};
         },
     .present = has_token_inputs,
     .keeps_16_bits = true},
    {.role = Role::kTokenInputNorm,
     .kind = Kind::kNorm,
     .place = Place::kFront,
     .shape = [](const ModelSpec& spec, const LayerSpec&) { return MatrixShape{1, token_input_size(spec)}; },
     .present = has_token_inputs,
     .read_by_linears_only = meets_table_row},
    {.role = Role::kFinalNorm,
     .kind = Kind::kNorm,
     .place = Place::kBack,
     .shape = hidden_vector,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.has_final_norm(); },
     .read_by_linears_only = read_after_blocks},
    {.role = Role::kHeadTransform,
     .place = Place::kBack,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{spec.embedding_channels(), spec.hidden_size}; },
     .present = has_head_transform,
     .bias_flag = &BiasSpec::head_transform,
     .reads = Role::kFinalNorm,
     .why_bias_stays = activation_follows},
    {.role = Role::kHeadNorm,
     .kind = Kind::kNorm,
     .place = Place::kBack,
     .shape = embedding_vector,
     .present = has_head_transform,
     .read_by_linears_only = read_by_head},
    {.role = Role::kHead,
     .place = Place::kBack,
     .shape = vocabulary,
     .present = [](const ModelSpec& spec, const LayerSpec&) { return !spec.tied_embeddings; }},
    {.role = Role::kHeadBias,
     .kind = Kind::kVector,
     .place = Place::kBack,
     .shape = [](const ModelSpec& spec, const LayerSpec&) { return MatrixShape{1, spec.vocab_size}; },
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.biases.head; },
     .stored_shape = [](const ModelSpec& spec,
                        const LayerSpec&) { return Shape{1, static_cast<std::int64_t>(spec.vocab_size)}; },
     .bias_flag = &BiasSpec::head,
     .why_bias_stays = [](const LayerSpec&) { return "it is added to the logits"; }},
    {.role = Role::kClassifierTransform,
     .place = Place::kBack,
     .shape = [](const ModelSpec& spec, const LayerSpec&) { return MatrixShape{spec.hidden_size, spec.hidden_size}; },
     .present = has_classifier_transform,
     .bias_flag = &BiasSpec::classifier_transform,
     .keeps_16_bits = true,
     .why_bias_stays = activation_follows},
    {.role = Role::kClassifierNorm,
     .kind = Kind::kNorm,
     .place = Place::kBack,
     .shape = hidden_vector,
     .present = [](const ModelSpec& spec,
                   const LayerSpec&) { return spec.classifier && spec.classifier->transform_norm; },
     .read_by_linears_only = [](const ModelSpec&, const LayerSpec&) -> FoldLegality {
       return {false, "the classifier is kept as it is"};
     }},
    {.role = Role::kClassifier,
     .place = Place::kBack,
     .shape =
         [](const ModelSpec& spec, const LayerSpec&) {
           return MatrixShape{spec.classifier ? spec.classifier->labels.size() : 0, spec.hidden_size};
         },
     .present = has_classifier,
     .bias_flag = &BiasSpec::classifier,
     .keeps_16_bits = true,
     .why_bias_stays = [](const LayerSpec&) { return "it is added to the scores"; }},
    draft_norm(Role::kDraftEmbeddingNorm),
    draft_norm(Role::kDraftModelNorm),
    draft_norm(Role::kDraftHiddenNorm),
    {.role = Role::kDraftProjection,
     .place = Place::kBack,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{spec.hidden_size, 2 * spec.hidden_size}; },
     .present = is_draft_head},
    draft_norm(Role::kDraftNorm),
}};

const char* why_up_bias_stays(const LayerSpec& layer) {
  return layer.mlp.gated ? "the gate multiplies it, differently for every token" : activation_follows(layer);
}

// The roles of one MLP with `size` hidden channels.
template <std::size_t (*size)(const LayerSpec&)>
MatrixShape inner_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {size(layer), spec.hidden_size};
}
template <std::size_t (*size)(const LayerSpec&)>
MatrixShape down_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {spec.hidden_size, size(layer)};
}

std::size_t plain_size(const LayerSpec& layer) {
  return layer.mlp.size;
}
std::size_t shared_size(const LayerSpec& layer) {
  return layer.mlp.experts ? layer.mlp.experts->shared_size : 0;
}
std::size_t expert_size(const LayerSpec& layer) {
  return layer.mlp.experts ? layer.mlp.experts->size : 0;
}
std::size_t expert_count(const LayerSpec& layer) {
  return layer.mlp.experts ? layer.mlp.experts->count : 0;
}

bool is_plain(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.mlp.exists() && !layer.mlp.experts;
}
bool is_routed(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return layer.mlp.experts.has_value();
}
bool has_shared(const ModelSpec& /*spec*/, const LayerSpec& layer) {
  return shared_size(layer) > 0;
}

template <bool (*present)(const ModelSpec&, const LayerSpec&)>
bool when_gated(const ModelSpec& spec, const LayerSpec& layer) {
  return layer.mlp.gated && present(spec, layer);
}

constexpr RoleRow mlp_linear(Role role, Place place) {
  return {.role = role, .place = place, .after_mixing = true};
}

template <std::size_t (*size)(const LayerSpec&), bool (*present)(const ModelSpec&, const LayerSpec&)>
constexpr std::array<RoleRow, 3> mlp_linears(Role gate, Role up, Role down, Place place) {
  RoleRow gate_row = mlp_linear(gate, place);
  gate_row.shape = inner_shape<size>;
  gate_row.present = when_gated<present>;
  gate_row.bias_flag = &BiasSpec::up;
  gate_row.reads = Role::kMlpNorm;
  gate_row.why_bias_stays = activation_follows;
  RoleRow up_row = gate_row;
  up_row.role = up;
  up_row.present = present;
  up_row.why_bias_stays = why_up_bias_stays;
  RoleRow down_row = mlp_linear(down, place);
  down_row.shape = down_shape<size>;
  down_row.present = present;
  down_row.bias_flag = &BiasSpec::down;
  down_row.producer = up;
  down_row.writes_stream = true;
  return {gate_row, up_row, down_row};
}

constexpr auto kPlain = mlp_linears<plain_size, is_plain>(Role::kGate, Role::kUp, Role::kDown, Place::kBlock);
constexpr auto kShared =
    mlp_linears<shared_size, has_shared>(Role::kSharedGate, Role::kSharedUp, Role::kSharedDown, Place::kBlock);
constexpr auto kExpert =
    mlp_linears<expert_size, is_routed>(Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, Place::kExpert);

constexpr RoleRow with_reason(RoleRow row, const char* (*why_bias_stays)(const LayerSpec&)) {
  row.why_bias_stays = why_bias_stays;
  return row;
}

const char* weighted_by_router(const LayerSpec& /*layer*/) {
  return "the router's weights multiply it, differently for every token";
}

const char* scaled_by_router(const LayerSpec& layer) {
  return layer.mlp.experts->shared_router ? weighted_by_router(layer) : nullptr;
}

constexpr RoleRow post_norm_beside_experts(Role role) {
  return {.role = role,
          .kind = Kind::kNorm,
          .shape = hidden_vector,
          .present = [](const ModelSpec&,
                        const LayerSpec& layer) { return layer.mlp.experts && layer.mlp.experts->post_norms; },
          .read_by_linears_only = adds_to_stream};
}

constexpr std::array<RoleRow, 23> kBlockRows{{
    {.role = Role::kAttentionNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present = [](const ModelSpec&, const LayerSpec& layer) { return layer.has_mixer() && layer.mixer_norm; }},
    {.role = Role::kAttentionPostNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present = [](const ModelSpec& spec, const LayerSpec& layer) { return spec.post_norms && layer.has_mixer(); },
     .read_by_linears_only = adds_to_stream},
    {.role = Role::kMlpNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           return spec.layout != BlockLayout::kParallelShared && layer.mlp.exists();
         }},
    kPlain[0],
    kPlain[1],
    kPlain[2],
    {.role = Role::kRouter,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{expert_count(layer), spec.hidden_size}; },
     .present = is_routed,
     .bias_flag = &BiasSpec::router,
     .reads = Role::kMlpNorm,
     .needs_float32 = true,
     .after_mixing = true,
     .why_bias_stays = [](const LayerSpec&) { return "the choice of experts follows"; }},
    {.role = Role::kRouterCorrection,
     .kind = Kind::kVector,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, expert_count(layer)}; },
     .present = [](const ModelSpec&,
                   const LayerSpec& layer) { return layer.mlp.experts && layer.mlp.experts->correction_bias; },
     .stored_shape = [](const ModelSpec&,
                        const LayerSpec& layer) { return Shape{1, static_cast<std::int64_t>(expert_count(layer))}; }},
    {.role = Role::kSharedRouter,
     .shape = hidden_vector,
     .present = [](const ModelSpec&,
                   const LayerSpec& layer) { return layer.mlp.experts && layer.mlp.experts->shared_router; },
     .reads = Role::kMlpNorm,
     .needs_float32 = true,
     .after_mixing = true},
    kShared[0],
    kShared[1],
    with_reason(kShared[2], scaled_by_router),
    post_norm_beside_experts(Role::kSharedPostNorm),
    post_norm_beside_experts(Role::kExpertsPostNorm),
    {.role = Role::kMlpPostNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present = [](const ModelSpec& spec, const LayerSpec& layer) { return spec.post_norms && layer.mlp.exists(); },
     .read_by_linears_only = adds_to_stream},
    {.role = Role::kEncoderNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present = [](const ModelSpec&, const LayerSpec& layer) { return layer.stream_norm; },
     .read_by_linears_only = [](const ModelSpec&, const LayerSpec&) -> FoldLegality {
       return {false, "the keys and values of all the decoder's blocks read it"};
     }},
    {.role = Role::kTokenInputGate,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{token_input_size(spec), spec.hidden_size}; },
     .present = has_token_inputs,
     .keeps_16_bits = true,
     .after_mixing = true,
     .why_bias_stays = activation_follows},
    {.role = Role::kTokenInputOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec&) { return MatrixShape{spec.hidden_size, token_input_size(spec)}; },
     .present = has_token_inputs,
     .keeps_16_bits = true,
     .writes_stream = true,
     .after_mixing = true},
    {.role = Role::kTokenInputPostNorm,
     .kind = Kind::kNorm,
     .shape = hidden_vector,
     .present = has_token_inputs,
     .read_by_linears_only = adds_to_stream},
    {.role = Role::kLayerScale,
     .kind = Kind::kVector,
     .shape = [](const ModelSpec&, const LayerSpec&) { return MatrixShape{1, 1}; },
     .present = [](const ModelSpec& spec, const LayerSpec&) { return spec.layer_scales; }},
    kExpert[0],
    kExpert[1],
    with_reason(kExpert[2], weighted_by_router),
}};

}  // namespace

std::span<const RoleRow> outer_rows() {
  return kOuterRows;
}

std::span<const RoleRow> block_rows() {
  return kBlockRows;
}

}  // namespace ballast::model
