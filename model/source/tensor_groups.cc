#include "model/source/tensor_groups.h"

#include <cctype>

namespace ballast::model {

std::string group_name(const std::string& tensor) {
  std::string name;
  for (std::size_t i = 0; i < tensor.size();) {
    std::size_t end = i;
    while (end < tensor.size() && std::isdigit(static_cast<unsigned char>(tensor[end])) != 0) ++end;
    const bool whole_part = end > i && (i == 0 || tensor[i - 1] == '.') && (end == tensor.size() || tensor[end] == '.');
    name += whole_part ? "*" : tensor.substr(i, std::max<std::size_t>(1, end - i));
    i = std::max(end, i + 1);
  }
  return name;
}

}  // namespace ballast::model
