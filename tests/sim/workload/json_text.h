#pragma once

#include <string>
#include <string_view>

namespace weir::sim {

// Appends `text`, valid UTF-8, as a JSON string. `escaped`: everything beyond ASCII as \u escapes,
// as some writers do.
void AppendJsonText(std::string_view text, bool escaped, std::string* out);

// Takes a JSON string, from its opening quote on, off `in` and appends what it stands for to
// `text`. False: it is none.
bool TakeJsonText(std::string_view* in, std::string* text);

}  // namespace weir::sim
