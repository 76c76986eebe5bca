// The type that a linear's input has when it is multiplied with the weights.
#ifndef BALLAST_ACTIVATION_TYPE_H_
#define BALLAST_ACTIVATION_TYPE_H_

namespace ballast {

/// Codes of weights multiply integers: INT8, or INT16, which takes twice the time and whose rounding does not show.
/// Weights in floats always multiply floats, and where kFloat is chosen for a matrix of codes, it is decoded to floats.
enum class ActivationType { kFloat, kInt16, kInt8 };

}  // namespace ballast

#endif  // BALLAST_ACTIVATION_TYPE_H_
