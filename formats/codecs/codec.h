// A codec is one program's way of storing matrices of codes in a checkpoint. Each codec is one file in this folder,
// with reading and writing: how its config.json is recognized, which tensors a matrix has, what its codes mean, and
// which matrices it cannot hold.
#ifndef BALLAST_FORMATS_CODECS_CODEC_H_
#define BALLAST_FORMATS_CODECS_CODEC_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/activation_type.h"
#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "files/checkpoint.h"
#include "files/json_reader.h"
#include "files/safetensors/safetensors_writer.h"
#include "formats/code_matrix.h"
#include "formats/stored_codes.h"

namespace ballast::formats {

/// Reads the matrices of one checkpoint. Immutable, thread-safe.
class CodecReader {
 public:
  virtual ~CodecReader() = default;

  /// Returns whether the checkpoint has this module's matrix quantized. It may have other matrices as plain tensors.
  virtual bool has(const files::Checkpoint& checkpoint, const std::string& module) const = 0;

  /// Returns the number of outputs that the shapes of a module's tensors give; the functions below check the rest.
  /// Precondition here and below: has() is true for the module.
  virtual std::size_t stored_rows(const files::Checkpoint& checkpoint, const std::string& module) const = 0;

  /// Returns the names of the tensors of a matrix [rows, cols] after a check of all names, types and shapes, which
  /// reads no values. Throws Error.
  virtual std::vector<std::string> checked_tensors(const files::Checkpoint& checkpoint, const std::string& module,
                                                   std::size_t rows, std::size_t cols) const = 0;

  /// Returns the codes after the same check. Throws Error, also for scales that are not finite.
  virtual StoredCodes codes(const files::Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                            std::size_t cols) const = 0;
};

/// A quantized matrix of a plan, which has no values yet.
struct PlannedMatrix {
  std::string name;  ///< of the module, as Hugging Face names it: "model.layers.0.mlp.up_proj"
  std::size_t rows = 0;
  std::size_t cols = 0;
  WeightFormat format;
  bool is_head = false;
};

/// The description of a whole model that configuration() needs.
struct PlannedModel {
  std::vector<PlannedMatrix> quantized;
  std::vector<std::string> plain_linears;  ///< linears that remain in floating point, in the order of the file
};

/// A tensor with its bytes.
struct EncodedTensor {
  files::TensorPlan plan;
  std::vector<std::byte> bytes;
};

/// Writes matrices of codes. Stateless, thread-safe.
class CodecWriter {
 public:
  virtual ~CodecWriter() = default;

  /// Returns the name for messages, as "compressed-tensors".
  virtual std::string name() const = 0;

  /// Returns the formats that a search may give to a matrix; empty: all matrices have the recipe's format.
  virtual std::vector<WeightFormat> candidates() const = 0;

  /// Returns the format to use instead of a recipe's integer format, if inputs become `activations`. Throws Error if
  /// this program cannot multiply the two.
  virtual WeightFormat fitting(const WeightFormat& format, ActivationType activations) const = 0;

  /// Returns the format to use instead of one that the user names for a matrix; not called for floats. Throws Error as
  /// fitting() does.
  virtual WeightFormat named(const WeightFormat& format, ActivationType /*activations*/) const { return format; }

  /// Returns whether matrices that read the same input must have one format, because programs that read the files fuse
  /// them.
  virtual bool ties_formats() const { return true; }

  /// Returns whether a head that is not the embedding is quantized, and whether an embedding is.
  virtual bool quantizes_head() const = 0;
  virtual bool quantizes_embedding() const { return false; }

  /// Returns whether this codec can store the matrix, by its format and shape.
  virtual bool holds(const PlannedMatrix& matrix) const = 0;

  /// Throws Error if configuration() cannot describe matrices together, each of which holds() accepts.
  virtual void check_together(const PlannedModel& /*model*/) const {}

  /// Returns the tensors of a matrix, without its bias; `scale_type` is the type of scales. Precondition: holds().
  virtual std::vector<files::TensorPlan> tensors(const PlannedMatrix& matrix, DType scale_type) const = 0;

  /// Returns those tensors with their bytes. Precondition: `codes` has the matrix's shape and format.
  std::vector<EncodedTensor> encode(const PlannedMatrix& matrix, const CodeMatrix& codes, DType scale_type) const;

  /// Returns the fields of config.json in which configuration() is stored.
  virtual std::vector<std::string> configuration_keys() const { return {"quantization_config"}; }

  /// Returns the description of a model's quantization. Precondition: check_together() accepted the model.
  virtual nlohmann::json configuration(const PlannedModel& model, ActivationType activations) const = 0;

 private:
  /// Returns the bytes of each tensor of tensors().
  virtual std::vector<std::vector<std::byte>> contents(const PlannedMatrix& matrix, const CodeMatrix& codes,
                                                       DType scale_type) const = 0;
};

/// The codec of one program.
struct Codec {
  /// Returns whether this program wrote the object `quantization_config` or `quantization` of a config.json.
  bool (*detect)(const files::JsonReader& quantization);

  /// Throws Error if the object requires something that ballast does not support.
  std::unique_ptr<const CodecReader> (*make_reader)(const files::JsonReader& quantization);

  const CodecWriter* writer = nullptr;  ///< null if ballast only reads these files
};

extern const Codec kCompressedTensorsCodec;
extern const Codec kGptqCodec;
extern const Codec kAwqCodec;
extern const Codec kMlxCodec;
extern const Codec kFp8Codec;
extern const Codec kModelOptCodec;

/// Returns a reader for the program that quantized a checkpoint, according to its config.json; null if no codec
/// recognizes it. Throws Error for settings that ballast does not read.
std::unique_ptr<const CodecReader> detect_codec(const files::JsonReader& config);

/// Returns a reader for a checkpoint whose hf_quant_config.json describes the quantization, which config.json does not:
/// earlier versions of ModelOpt wrote that file alone. Null if the directory has no such file. Throws Error.
std::unique_ptr<const CodecReader> read_modelopt_config(const std::filesystem::path& directory);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_CODEC_H_
