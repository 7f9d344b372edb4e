#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/base/concat.h"

namespace weir {

// Sets every field of a message, through all levels, to a value that no other field has; lists get
// two elements. The `status` of responses, which is not part of the domain, stays unset.
class MessageFiller {
 public:
  void Fill(google::protobuf::Message* message) {
    const auto* descriptor = message->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const auto* field = descriptor->field(i);
      if (field->name() == "status") continue;
      FillField(message, field);
      if (field->is_repeated()) FillField(message, field);
    }
  }

 private:
  using Field = google::protobuf::FieldDescriptor;

  void FillField(google::protobuf::Message* message, const Field* field) {
    const auto* reflection = message->GetReflection();
    ++number_;
    bool list = field->is_repeated();
    switch (field->cpp_type()) {
      case Field::CPPTYPE_INT32:
        list ? reflection->AddInt32(message, field, number_)
             : reflection->SetInt32(message, field, number_);
        break;
      case Field::CPPTYPE_INT64:
        // Beyond what a double holds exactly.
        reflection->SetInt64(message, field, (int64_t{1} << 60) + number_);
        break;
      case Field::CPPTYPE_UINT32:  // Field.type
        reflection->SetUInt32(message, field, 1 + number_ % 7);
        break;
      case Field::CPPTYPE_UINT64:
        reflection->SetUInt64(message, field, (uint64_t{1} << 63) + number_);
        break;
      case Field::CPPTYPE_DOUBLE:
        reflection->SetDouble(message, field, number_ + 0.25);
        break;
      case Field::CPPTYPE_BOOL:
        reflection->SetBool(message, field, true);
        break;
      case Field::CPPTYPE_ENUM: {
        const auto* values = field->enum_type();
        int value = 1 + number_ % (values->value_count() - 1);
        reflection->SetEnum(message, field, values->value(value));
        break;
      }
      case Field::CPPTYPE_STRING: {
        std::string text = Concat("text-", number_);
        if (field->name() == "config_json") text = Concat("{\"field\":", number_, "}");
        if (field->type() == Field::TYPE_BYTES) text += "-\xff\x80";  // no UTF-8
        list ? reflection->AddString(message, field, text)
             : reflection->SetString(message, field, text);
        break;
      }
      case Field::CPPTYPE_MESSAGE:
        Fill(list ? reflection->AddMessage(message, field)
                  : reflection->MutableMessage(message, field));
        break;
      default:
        break;  // a kind that no message of ours has yet: its field stays unset and the test fails
    }
  }

  int number_ = 0;
};

}  // namespace weir
