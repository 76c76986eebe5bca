// The Python object of an adapter.
#ifndef BALLAST_PYTHON_BINDINGS_HELD_ADAPTER_H_
#define BALLAST_PYTHON_BINDINGS_HELD_ADAPTER_H_

#include "ballast/adapter.h"

namespace ballast::python {

struct HeldAdapter {
  Adapter adapter;
};

/// Returns the adapter of an argument that may be None.
inline Adapter adapter_of(const HeldAdapter* held) {
  return held == nullptr ? nullptr : held->adapter;
}

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_HELD_ADAPTER_H_
