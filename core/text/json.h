#pragma once

// nlohmann's JSON. What parses and what prints it is compiled once, in json.cc, not in every file that calls
// json::parse() or dump(): each then took 3 seconds at -O3, and 6 with sanitizers.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nlohmann::detail {

using OfString = iterator_input_adapter<std::string::const_iterator>;
using OfView = iterator_input_adapter<std::string_view::const_iterator>;

extern template class serializer<json>;
extern template class serializer<ordered_json>;
extern template class json_sax_dom_parser<json>;
extern template class json_sax_dom_parser<ordered_json>;
extern template class json_sax_dom_callback_parser<json>;
extern template class json_sax_dom_callback_parser<ordered_json>;
extern template class lexer<json, OfString>;
extern template class lexer<json, OfView>;
extern template class lexer<ordered_json, OfString>;
extern template class lexer<ordered_json, OfView>;
extern template class parser<json, OfString>;
extern template class parser<json, OfView>;
extern template class parser<ordered_json, OfString>;
extern template class parser<ordered_json, OfView>;

}  // namespace nlohmann::detail
