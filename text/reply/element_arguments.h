// Reads the arguments of a call that are elements, as XML has them: MARK<name>value MARK</name>. A list has an element
// for each item, an object one for each member.
#ifndef BALLAST_TEXT_REPLY_ELEMENT_ARGUMENTS_H_
#define BALLAST_TEXT_REPLY_ELEMENT_ARGUMENTS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply/argument_result.h"
#include "text/reply/call_marks.h"
#include "text/reply/call_syntax.h"
#include "text/reply/offered_tool.h"

namespace ballast::text {

/// Marks of ElementSyntax, as symbols.
struct ElementMarks {
  ElementMarks(const ElementSyntax& syntax, const Tokenizer& tokenizer);

  CallMarks before_tag;
  std::string_view item;
  std::string_view end;
};

class ElementArguments {
 public:
  /// `tool`: null if its schema is not known. Both must outlive the reader.
  ElementArguments(const ElementMarks& marks, const OfferedTool* tool);

  ArgumentResult take(const Symbol& symbol, std::string& object);

 private:
  struct Element {
    std::string name;
    const nlohmann::ordered_json* schema;  ///< null: not known
    JsonTypes types{};
    std::string text{};
    std::string members{};  ///< as JSON, without the closing bracket
    std::vector<std::string> names{};
    std::size_t items = 0;
    bool is_list = false;
  };

  ArgumentResult take_tag(const Symbol& symbol, std::string& object);
  bool open(std::string_view name, std::string& object);
  bool close(std::string& object);
  std::string value_of(const Element& element) const;
  const nlohmann::ordered_json* schema_within(const Element& element, std::string_view name) const;

  const ElementMarks* marks_;
  const nlohmann::ordered_json* schema_;  ///< of the tool's arguments, or null
  CallTextReader text_;
  bool in_tag_ = false;
  std::string tag_;
  std::vector<Element> elements_;  ///< that are open: the first one stands for the arguments
  bool streams_ = false;           ///< the innermost one is a string, whose text is passed on at once
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_ELEMENT_ARGUMENTS_H_
