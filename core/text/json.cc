#include "core/text/json.h"

namespace nlohmann::detail {

template class serializer<json>;
template class serializer<ordered_json>;
template class json_sax_dom_parser<json>;
template class json_sax_dom_parser<ordered_json>;
template class json_sax_dom_callback_parser<json>;
template class json_sax_dom_callback_parser<ordered_json>;
template class lexer<json, OfString>;
template class lexer<json, OfView>;
template class lexer<ordered_json, OfString>;
template class lexer<ordered_json, OfView>;
template class parser<json, OfString>;
template class parser<json, OfView>;
template class parser<ordered_json, OfString>;
template class parser<ordered_json, OfView>;

}  // namespace nlohmann::detail
