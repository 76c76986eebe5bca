#include "formats/codecs/codec.h"

#include <array>
#include <utility>

namespace ballast::formats {

namespace {

constexpr std::array<const Codec*, 6> kCodecs = {&kMlxCodec, &kCompressedTensorsCodec, &kGptqCodec, &kAwqCodec,
                                                 &kFp8Codec, &kModelOptCodec};

}  // namespace

std::vector<EncodedTensor> CodecWriter::encode(const PlannedMatrix& matrix, const CodeMatrix& codes,
                                               DType scale_type) const {
  std::vector<std::vector<std::byte>> bytes = contents(matrix, codes, scale_type);
  std::vector<EncodedTensor> encoded;
  for (files::TensorPlan& plan : tensors(matrix, scale_type)) {
    encoded.push_back({std::move(plan), std::move(bytes[encoded.size()])});
  }
  return encoded;
}

std::unique_ptr<const CodecReader> detect_codec(const files::JsonReader& config) {
  for (const std::string_view field : {"quantization_config", "quantization"}) {
    if (!config.has(field)) continue;
    const files::JsonReader quantization = config.object(field);
    for (const Codec* codec : kCodecs) {
      if (codec->detect(quantization)) return codec->make_reader(quantization);
    }
  }
  return nullptr;
}

}  // namespace ballast::formats
