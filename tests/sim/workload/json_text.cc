#include "tests/sim/workload/json_text.h"

#include <cstdint>
#include <cstdio>

namespace weir::sim {
namespace {

void AppendEscape(uint32_t unit, std::string* out) {
  char escape[8];
  std::snprintf(escape, sizeof(escape), "\\u%04x", unit);
  out->append(escape);
}

void AppendUtf8(uint32_t point, std::string* out) {
  auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

bool TakeHex(std::string_view* in, uint32_t* unit) {
  if (in->size() < 4) return false;
  *unit = 0;
  for (int i = 0; i < 4; ++i) {
    char c = (*in)[static_cast<size_t>(i)];
    uint32_t digit;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A' + 10);
    } else {
      return false;
    }
    *unit = *unit * 16 + digit;
  }
  in->remove_prefix(4);
  return true;
}

}  // namespace

void AppendJsonText(std::string_view text, bool escaped, std::string* out) {
  out->push_back('"');
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(text[i]);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c < 0x20) {
      AppendEscape(c, out);
    } else if (c < 0x80 || !escaped) {
      out->push_back(text[i]);
    } else {
      const int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
      uint32_t point = c & (0x3fu >> more);
      for (int k = 0; k < more; ++k) point = point << 6 | (text[++i] & 0x3f);
      if (point >= 0x10000) {
        point -= 0x10000;
        AppendEscape(0xd800 + (point >> 10), out);
        AppendEscape(0xdc00 + (point & 0x3ff), out);
      } else {
        AppendEscape(point, out);
      }
    }
  }
  out->push_back('"');
}

bool TakeJsonText(std::string_view* in, std::string* text) {
  if (!in->starts_with('"')) return false;
  in->remove_prefix(1);
  while (true) {
    size_t plain = in->find_first_of("\"\\");
    if (plain == std::string_view::npos) return false;
    text->append(in->substr(0, plain));
    char c = (*in)[plain];
    in->remove_prefix(plain + 1);
    if (c == '"') return true;
    if (in->empty()) return false;
    c = in->front();
    in->remove_prefix(1);
    switch (c) {
      case '"':
      case '\\':
      case '/':
        text->push_back(c);
        break;
      case 'b':
        text->push_back('\b');
        break;
      case 'f':
        text->push_back('\f');
        break;
      case 'n':
        text->push_back('\n');
        break;
      case 'r':
        text->push_back('\r');
        break;
      case 't':
        text->push_back('\t');
        break;
      case 'u': {
        uint32_t unit;
        if (!TakeHex(in, &unit)) return false;
        if (unit >= 0xdc00 && unit < 0xe000) return false;
        if (unit >= 0xd800 && unit < 0xdc00) {
          uint32_t low;
          if (!in->starts_with("\\u")) return false;
          in->remove_prefix(2);
          if (!TakeHex(in, &low) || low < 0xdc00 || low >= 0xe000) return false;
          unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
        AppendUtf8(unit, text);
        break;
      }
      default:
        return false;
    }
  }
}

}  // namespace weir::sim
