#include "common/expression/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "common/base/concat.h"
#include "common/base/names.h"
#include "common/record/batch_builder.h"
#include "common/record/text_values.h"

namespace weir::internal {
namespace {

using NodePtr = std::unique_ptr<ExpressionNode>;

constexpr size_t kTextBytesMax = 64 * 1024;
constexpr int kDepthMax = 300;  // of parentheses and of the tree: bounds the stack

enum class TokenKind { kWord, kQuotedName, kNumber, kText, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view source;  // as written
  std::string text;         // content of a quoted name or text; a word in lower case
  size_t begin = 0, end = 0;
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return (Lower(c) >= 'a' && Lower(c) <= 'z') || c == '_'; }

bool IsReserved(std::string_view word) {
  static constexpr std::string_view kReserved[] = {"and",  "or",   "not",  "is",    "null",
                                                   "in",   "like", "true", "false", "case",
                                                   "when", "then", "else", "end",   "as"};
  return std::find(std::begin(kReserved), std::end(kReserved), word) != std::end(kReserved);
}

bool IsInteger(Type type) { return type == Type::kInt32 || type == Type::kInt64; }
bool IsNumber(Type type) { return IsInteger(type) || type == Type::kFloat64; }

std::string_view TypeName(const ExpressionNode& node) {
  return node.is_null_literal ? "null" : ToString(node.type);
}

NodePtr MakeLiteral(ColumnBuilder builder, size_t begin, size_t end) {
  auto node = std::make_unique<ExpressionNode>();
  node->type = builder.type();
  node->literal = builder.Finish();
  node->begin = begin;
  node->end = end;
  return node;
}

NodePtr MakeNull(Type type, size_t begin, size_t end) {
  ColumnBuilder builder(type);
  builder.AppendNull();
  return MakeLiteral(std::move(builder), begin, end);
}

// Whether the operation itself, whatever its operands do, may fail for some value.
bool CanFail(Operation operation, Type from, Type to) {
  switch (operation) {
    case Operation::kAdd:
    case Operation::kSubtract:
    case Operation::kMultiply:
    case Operation::kNegate:
    case Operation::kAbs:
      return to != Type::kFloat64;
    case Operation::kDivide:
    case Operation::kRemainder:
    case Operation::kSubstr:
    case Operation::kConcat:
      return true;
    case Operation::kCast:
      if (from == Type::kString) return to != Type::kBytes;
      if (from == Type::kFloat64) return IsInteger(to);
      if (from == Type::kInt64) return to == Type::kInt32;
      return from == Type::kBytes;
    default:
      return false;
  }
}

NodePtr MakeNode(Operation operation, Type type, size_t begin, size_t end,
                 std::vector<NodePtr> operands) {
  auto node = std::make_unique<ExpressionNode>();
  node->operation = operation;
  node->type = type;
  node->begin = begin;
  node->end = end;
  node->can_fail = CanFail(operation, operands.empty() ? type : operands[0]->type, type);
  for (const NodePtr& operand : operands) {
    node->depth = std::max(node->depth, operand->depth + 1);
    node->can_fail = node->can_fail || operand->can_fail;
  }
  node->operands = std::move(operands);
  return node;
}

template <typename... T>
std::vector<NodePtr> Operands(T... nodes) {
  std::vector<NodePtr> operands;
  (operands.push_back(std::move(nodes)), ...);
  return operands;
}

bool CanCast(Type from, Type to) {
  if (from == to) return true;
  switch (from) {
    case Type::kBool:
      return IsInteger(to) || to == Type::kString;
    case Type::kInt32:
      return to == Type::kInt64 || to == Type::kFloat64 || to == Type::kBool || to == Type::kString;
    case Type::kInt64:
      return to != Type::kBytes;
    case Type::kFloat64:
      return IsInteger(to) || to == Type::kString;
    case Type::kString:
      return true;
    case Type::kBytes:
      return to == Type::kString;
    case Type::kTimestamp:
      return to == Type::kInt64 || to == Type::kString;
  }
  return false;
}

// Recursive descent; types are settled on the way up. Thread: confined to the call.
class Parser {
 public:
  Parser(std::string_view text, const Schema& schema) : text_(text), schema_(schema) {}

  StatusOr<NodePtr> Parse() {
    if (text_.size() > kTextBytesMax) {
      return InvalidArgumentError(
          Concat("an expression has ", text_.size(), " bytes: at most ", kTextBytesMax));
    }
    WEIR_RETURN_IF_ERROR(Advance());
    WEIR_ASSIGN_OR_RETURN(NodePtr root, ParseOr());
    if (token_.kind != TokenKind::kEnd) {
      return Error(token_.begin, Concat("unexpected '", token_.source, "'"));
    }
    if (root->is_null_literal) {
      return Error(root->begin, "a null needs a type here: cast(null as …)");
    }
    return root;
  }

 private:
  Status Error(size_t at, std::string_view what) const {
    // Columns count characters, not bytes.
    size_t column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      if ((static_cast<unsigned char>(text_[i]) & 0xc0) != 0x80) ++column;
    }
    return InvalidArgumentError(
        Concat("expression ", QuoteForMessage(text_), " at column ", column, ": ", what));
  }

  Status Advance() {
    last_end_ = token_.end;
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t' ||
                                        text_[position_] == '\n' || text_[position_] == '\r')) {
      ++position_;
    }
    token_ = Token();
    token_.begin = position_;
    if (position_ < text_.size()) {
      const char c = text_[position_];
      if (IsWordStart(c)) {
        TakeWord();
      } else if (IsDigit(c) ||
                 (c == '.' && position_ + 1 < text_.size() && IsDigit(text_[position_ + 1]))) {
        TakeNumber();
      } else if (c == '\'' || c == '"') {
        WEIR_RETURN_IF_ERROR(TakeQuoted(c));
      } else {
        WEIR_RETURN_IF_ERROR(TakeSymbol());
      }
    }
    token_.end = position_;
    token_.source = text_.substr(token_.begin, token_.end - token_.begin);
    return {};
  }

  void TakeWord() {
    token_.kind = TokenKind::kWord;
    while (position_ < text_.size() &&
           (IsWordStart(text_[position_]) || IsDigit(text_[position_]))) {
      token_.text += Lower(text_[position_++]);
    }
  }

  void TakeNumber() {
    token_.kind = TokenKind::kNumber;
    auto digits = [&] {
      while (position_ < text_.size() && IsDigit(text_[position_])) ++position_;
    };
    digits();
    if (position_ < text_.size() && text_[position_] == '.') {
      ++position_;
      digits();
    }
    if (position_ < text_.size() && Lower(text_[position_]) == 'e') {
      size_t after = position_ + 1;
      if (after < text_.size() && (text_[after] == '+' || text_[after] == '-')) ++after;
      if (after < text_.size() && IsDigit(text_[after])) {
        position_ = after;
        digits();
      }
    }
    // "12ab" is one wrong token, not two.
    while (position_ < text_.size() &&
           (IsWordStart(text_[position_]) || IsDigit(text_[position_]))) {
      ++position_;
    }
  }

  // The quote is written twice inside.
  Status TakeQuoted(char quote) {
    token_.kind = quote == '"' ? TokenKind::kQuotedName : TokenKind::kText;
    const size_t begin = position_++;
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c != quote) {
        token_.text += c;
      } else if (position_ < text_.size() && text_[position_] == quote) {
        token_.text += quote;
        ++position_;
      } else {
        if (!IsValidUtf8(token_.text)) return Error(begin, "invalid UTF-8 in quotes");
        return {};
      }
    }
    return Error(begin, Concat("no closing ", std::string(1, quote)));
  }

  Status TakeSymbol() {
    static constexpr std::string_view kSymbols[] = {"!=", "<>", "<=", ">=", "==", "<", ">", "=",
                                                    "+",  "-",  "*",  "/",  "%",  "(", ")", ","};
    token_.kind = TokenKind::kSymbol;
    for (std::string_view symbol : kSymbols) {
      if (text_.substr(position_, symbol.size()) != symbol) continue;
      token_.text = symbol;
      position_ += symbol.size();
      return {};
    }
    return Error(position_, Concat("unexpected ", QuoteForMessage(text_.substr(position_, 1))));
  }

  bool IsWord(std::string_view word) const {
    return token_.kind == TokenKind::kWord && token_.text == word;
  }
  bool IsSymbol(std::string_view symbol) const {
    return token_.kind == TokenKind::kSymbol && token_.text == symbol;
  }

  Status Expect(bool there, std::string_view what) {
    if (there) return Advance();
    return Error(token_.begin, token_.kind == TokenKind::kEnd
                                   ? Concat("expected ", what, ", found the end")
                                   : Concat("expected ", what, ", found '", token_.source, "'"));
  }
  Status ExpectSymbol(std::string_view symbol) {
    return Expect(IsSymbol(symbol), Concat("'", symbol, "'"));
  }
  Status ExpectWord(std::string_view word) { return Expect(IsWord(word), Concat("'", word, "'")); }

  StatusOr<NodePtr> Checked(NodePtr node) const {
    if (node->depth > kDepthMax) {
      return Error(node->begin, Concat("nested too deeply, at most ", kDepthMax, " levels"));
    }
    return node;
  }

  // Makes `node` a value of `type`: a null takes it, numbers widen.
  NodePtr Coerce(NodePtr node, Type type) const {
    if (node->is_null_literal) return MakeNull(type, node->begin, node->end);
    if (node->type == type) return node;
    const size_t begin = node->begin, end = node->end;
    return MakeNode(Operation::kCast, type, begin, end, Operands(std::move(node)));
  }

  // The type that both can be without loss of meaning; none: no value. A null is whatever is asked.
  static std::optional<Type> CommonType(const ExpressionNode& a, const ExpressionNode& b) {
    if (a.is_null_literal) return b.type;
    if (b.is_null_literal || a.type == b.type) return a.type;
    if (!IsNumber(a.type) || !IsNumber(b.type)) return std::nullopt;
    return a.type == Type::kFloat64 || b.type == Type::kFloat64 ? Type::kFloat64 : Type::kInt64;
  }

  // Gives all of `nodes` one type.
  StatusOr<Type> Unify(std::vector<NodePtr*> nodes, std::string_view what) const {
    ExpressionNode common;
    common.is_null_literal = true;
    for (NodePtr* node : nodes) {
      std::optional<Type> type = CommonType(common, **node);
      if (!type.has_value()) {
        return Error((*node)->begin, Concat(what, " have the types ", ToString(common.type),
                                            " and ", TypeName(**node), ": expected one type"));
      }
      if (!(*node)->is_null_literal) common.is_null_literal = false;
      common.type = *type;
    }
    for (NodePtr* node : nodes) *node = Coerce(std::move(*node), common.type);
    return common.type;
  }

  Status RequireType(NodePtr* node, Type type, std::string_view what) const {
    if (!(*node)->is_null_literal && (*node)->type != type) {
      return Error((*node)->begin,
                   Concat(what, " is ", ToString((*node)->type), ": expected ", ToString(type)));
    }
    *node = Coerce(std::move(*node), type);
    return {};
  }

  // INT32 becomes INT64: whole numbers are added and multiplied with 64 bits.
  Status RequireNumber(NodePtr* node, std::string_view what) const {
    if (!(*node)->is_null_literal && !IsNumber((*node)->type)) {
      return Error((*node)->begin,
                   Concat(what, " is ", ToString((*node)->type), ": expected a number"));
    }
    const bool is_float = !(*node)->is_null_literal && (*node)->type == Type::kFloat64;
    *node = Coerce(std::move(*node), is_float ? Type::kFloat64 : Type::kInt64);
    return {};
  }

  StatusOr<NodePtr> ParseOr() { return ParseLogic("or", Operation::kOr); }
  StatusOr<NodePtr> ParseAnd() { return ParseLogic("and", Operation::kAnd); }

  StatusOr<NodePtr> ParseLogic(std::string_view word, Operation operation) {
    auto parse_operand = [&] { return operation == Operation::kOr ? ParseAnd() : ParseNot(); };
    WEIR_ASSIGN_OR_RETURN(NodePtr first, parse_operand());
    if (!IsWord(word)) return first;
    std::vector<NodePtr> operands = Operands(std::move(first));
    while (IsWord(word)) {
      WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr next, parse_operand());
      operands.push_back(std::move(next));
    }
    for (NodePtr& operand : operands) {
      WEIR_RETURN_IF_ERROR(
          RequireType(&operand, Type::kBool, Concat("an operand of '", word, "'")));
    }
    const size_t begin = operands.front()->begin;
    return Checked(MakeNode(operation, Type::kBool, begin, last_end_, std::move(operands)));
  }

  StatusOr<NodePtr> ParseNot() {
    const size_t begin = token_.begin;
    bool negated = false;
    bool any = false;
    while (IsWord("not")) {
      WEIR_RETURN_IF_ERROR(Advance());
      negated = !negated;
      any = true;
    }
    WEIR_ASSIGN_OR_RETURN(NodePtr node, ParsePredicate());
    if (!any) return node;
    WEIR_RETURN_IF_ERROR(RequireType(&node, Type::kBool, "the operand of 'not'"));
    if (!negated) return node;
    return Checked(
        MakeNode(Operation::kNot, Type::kBool, begin, last_end_, Operands(std::move(node))));
  }

  StatusOr<NodePtr> ParsePredicate() {
    WEIR_ASSIGN_OR_RETURN(NodePtr left, ParseSum());
    const size_t begin = left->begin;
    if (token_.kind == TokenKind::kSymbol) {
      static constexpr std::pair<std::string_view, Operation> kComparisons[] = {
          {"=", Operation::kEqual},     {"==", Operation::kEqual},
          {"!=", Operation::kNotEqual}, {"<>", Operation::kNotEqual},
          {"<", Operation::kLess},      {"<=", Operation::kLessOrEqual},
          {">", Operation::kGreater},   {">=", Operation::kGreaterOrEqual}};
      for (const auto& [symbol, operation] : kComparisons) {
        if (!IsSymbol(symbol)) continue;
        const size_t at = token_.begin;
        WEIR_RETURN_IF_ERROR(Advance());
        WEIR_ASSIGN_OR_RETURN(NodePtr right, ParseSum());
        WEIR_RETURN_IF_ERROR(Comparable(at, symbol, &left, &right));
        return Checked(MakeNode(operation, Type::kBool, begin, last_end_,
                                Operands(std::move(left), std::move(right))));
      }
      return left;
    }
    if (IsWord("is")) {
      WEIR_RETURN_IF_ERROR(Advance());
      const bool negated = IsWord("not");
      if (negated) WEIR_RETURN_IF_ERROR(Advance());
      WEIR_RETURN_IF_ERROR(ExpectWord("null"));
      const Type type = left->type;
      left = Coerce(std::move(left), type);
      return Negated(negated, MakeNode(Operation::kIsNull, Type::kBool, begin, last_end_,
                                       Operands(std::move(left))));
    }
    const bool negated = IsWord("not");
    if (negated) {
      WEIR_RETURN_IF_ERROR(Advance());
      if (!IsWord("in") && !IsWord("like")) return Expect(false, "'in' or 'like' after 'not'");
    }
    if (IsWord("in")) {
      WEIR_ASSIGN_OR_RETURN(NodePtr in, ParseIn(std::move(left)));
      return Negated(negated, std::move(in));
    }
    if (IsWord("like")) {
      WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr pattern, ParseSum());
      WEIR_RETURN_IF_ERROR(RequireType(&left, Type::kString, "the left side of 'like'"));
      WEIR_RETURN_IF_ERROR(RequireType(&pattern, Type::kString, "the pattern of 'like'"));
      return Negated(negated, MakeNode(Operation::kLike, Type::kBool, begin, last_end_,
                                       Operands(std::move(left), std::move(pattern))));
    }
    return left;
  }

  StatusOr<NodePtr> Negated(bool negated, NodePtr node) {
    if (negated) {
      const size_t begin = node->begin, end = node->end;
      node = MakeNode(Operation::kNot, Type::kBool, begin, end, Operands(std::move(node)));
    }
    return Checked(std::move(node));
  }

  Status Comparable(size_t at, std::string_view symbol, NodePtr* left, NodePtr* right) const {
    std::optional<Type> type = CommonType(**left, **right);
    if (!type.has_value()) {
      const bool text_and_time =
          ((*left)->type == Type::kTimestamp && (*right)->type == Type::kString) ||
          ((*left)->type == Type::kString && (*right)->type == Type::kTimestamp);
      return Error(at, Concat("'", symbol, "' compares ", TypeName(**left), " with ",
                              TypeName(**right), ": expected one type",
                              text_and_time ? ", like timestamp '2013-01-01T10:00:00Z'" : ""));
    }
    // INT32 literals do not exist: comparing an INT32 column widens it.
    *left = Coerce(std::move(*left), *type);
    *right = Coerce(std::move(*right), *type);
    return {};
  }

  StatusOr<NodePtr> ParseIn(NodePtr left) {
    const size_t begin = left->begin;
    WEIR_RETURN_IF_ERROR(Advance());
    WEIR_RETURN_IF_ERROR(ExpectSymbol("("));
    std::vector<NodePtr> operands = Operands(std::move(left));
    do {
      if (operands.size() > 1) WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr item, ParseNested());
      operands.push_back(std::move(item));
    } while (IsSymbol(","));
    WEIR_RETURN_IF_ERROR(ExpectSymbol(")"));
    std::vector<NodePtr*> all;
    bool literals = true;
    for (NodePtr& operand : operands) {
      literals =
          literals && (&operand == &operands[0] ||
                       (operand->operation == Operation::kLiteral && !operand->literal.IsNull(0)));
      all.push_back(&operand);
    }
    WEIR_ASSIGN_OR_RETURN(const Type type, Unify(all, "the values of 'in'"));
    // A list of plain values is searched in sorted order. (Widened to FLOAT64 it is none.)
    Operation operation = Operation::kIn;
    std::vector<std::string> texts;
    std::vector<int64_t> numbers;
    if (literals && IsVariableWidth(type)) {
      operation = Operation::kInTexts;
      for (size_t i = 1; i < operands.size(); ++i) texts.emplace_back(operands[i]->literal.Text(0));
      std::sort(texts.begin(), texts.end());
    } else if (literals && (type == Type::kInt64 || type == Type::kTimestamp)) {
      operation = Operation::kInNumbers;
      for (size_t i = 1; i < operands.size(); ++i) numbers.push_back(operands[i]->literal.Int64(0));
      std::sort(numbers.begin(), numbers.end());
    }
    if (operation != Operation::kIn) operands.resize(1);
    NodePtr node = MakeNode(operation, Type::kBool, begin, last_end_, std::move(operands));
    node->texts = std::move(texts);
    node->numbers = std::move(numbers);
    return node;
  }

  StatusOr<NodePtr> ParseSum() {
    WEIR_ASSIGN_OR_RETURN(NodePtr left, ParseProduct());
    while (IsSymbol("+") || IsSymbol("-")) {
      const Operation operation = IsSymbol("+") ? Operation::kAdd : Operation::kSubtract;
      WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr right, ParseProduct());
      WEIR_ASSIGN_OR_RETURN(left, Arithmetic(operation, std::move(left), std::move(right)));
    }
    return left;
  }

  StatusOr<NodePtr> ParseProduct() {
    WEIR_ASSIGN_OR_RETURN(NodePtr left, ParseSign());
    while (IsSymbol("*") || IsSymbol("/") || IsSymbol("%")) {
      const Operation operation = IsSymbol("*")   ? Operation::kMultiply
                                  : IsSymbol("/") ? Operation::kDivide
                                                  : Operation::kRemainder;
      WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr right, ParseSign());
      WEIR_ASSIGN_OR_RETURN(left, Arithmetic(operation, std::move(left), std::move(right)));
    }
    return left;
  }

  StatusOr<NodePtr> Arithmetic(Operation operation, NodePtr left, NodePtr right) const {
    const size_t begin = left->begin;
    WEIR_RETURN_IF_ERROR(RequireNumber(&left, "an operand"));
    WEIR_RETURN_IF_ERROR(RequireNumber(&right, "an operand"));
    const Type type = left->type == Type::kFloat64 || right->type == Type::kFloat64 ? Type::kFloat64
                                                                                    : Type::kInt64;
    left = Coerce(std::move(left), type);
    right = Coerce(std::move(right), type);
    return Checked(
        MakeNode(operation, type, begin, last_end_, Operands(std::move(left), std::move(right))));
  }

  StatusOr<NodePtr> ParseSign() {
    const size_t begin = token_.begin;
    if (IsSymbol("+") || IsSymbol("-")) {
      const bool minus = IsSymbol("-");
      WEIR_RETURN_IF_ERROR(Advance());
      if (token_.kind == TokenKind::kNumber) return ParseNumber(begin, minus);
      if (++nesting_ > kDepthMax) return TooDeep();
      WEIR_ASSIGN_OR_RETURN(NodePtr node, ParseSign());
      --nesting_;
      WEIR_RETURN_IF_ERROR(RequireNumber(&node, "an operand"));
      if (!minus) return node;
      const Type type = node->type;
      return Checked(
          MakeNode(Operation::kNegate, type, begin, last_end_, Operands(std::move(node))));
    }
    return ParsePrimary();
  }

  Status TooDeep() const {
    return Error(token_.begin, Concat("nested too deeply, at most ", kDepthMax, " levels"));
  }

  StatusOr<NodePtr> ParseNested() {
    if (++nesting_ > kDepthMax) return TooDeep();
    StatusOr<NodePtr> node = ParseOr();
    --nesting_;
    return node;
  }

  StatusOr<NodePtr> ParseNumber(size_t begin, bool minus) {
    const std::string text = Concat(minus ? "-" : "", token_.source);
    const char* first = text.data();
    const char* last = first + text.size();
    if (text.find_first_not_of("-0123456789") == std::string::npos) {
      int64_t value = 0;
      auto [end, error] = std::from_chars(first, last, value);
      if (error != std::errc() || end != last) {
        return Error(begin, Concat("integer ", text, " does not fit INT64"));
      }
      ColumnBuilder builder(Type::kInt64);
      builder.AppendInt64(value);
      WEIR_RETURN_IF_ERROR(Advance());
      return MakeLiteral(std::move(builder), begin, last_end_);
    }
    double value = 0;
    auto [end, error] = std::from_chars(first, last, value);
    if (end != last) return Error(begin, Concat("'", text, "' is no number"));
    if (error != std::errc()) return Error(begin, Concat("number ", text, " does not fit FLOAT64"));
    ColumnBuilder builder(Type::kFloat64);
    builder.AppendFloat64(value);
    WEIR_RETURN_IF_ERROR(Advance());
    return MakeLiteral(std::move(builder), begin, last_end_);
  }

  StatusOr<NodePtr> ParsePrimary() {
    const Token token = token_;
    switch (token.kind) {
      case TokenKind::kNumber:
        return ParseNumber(token.begin, false);
      case TokenKind::kText: {
        WEIR_RETURN_IF_ERROR(Advance());
        ColumnBuilder builder(Type::kString);
        builder.AppendText(token.text);
        return MakeLiteral(std::move(builder), token.begin, token.end);
      }
      case TokenKind::kQuotedName:
        WEIR_RETURN_IF_ERROR(Advance());
        return ColumnNamed(token.text, token);
      case TokenKind::kSymbol:
        if (token.text == "(") {
          WEIR_RETURN_IF_ERROR(Advance());
          WEIR_ASSIGN_OR_RETURN(NodePtr node, ParseNested());
          WEIR_RETURN_IF_ERROR(ExpectSymbol(")"));
          node->begin = token.begin;
          node->end = last_end_;
          return node;
        }
        break;
      case TokenKind::kWord:
        return ParseWord(token);
      case TokenKind::kEnd:
        break;
    }
    return Expect(false, "a value");
  }

  StatusOr<NodePtr> ParseWord(const Token& token) {
    if (token.text == "true" || token.text == "false") {
      WEIR_RETURN_IF_ERROR(Advance());
      ColumnBuilder builder(Type::kBool);
      builder.AppendBool(token.text == "true");
      return MakeLiteral(std::move(builder), token.begin, token.end);
    }
    if (token.text == "null") {
      WEIR_RETURN_IF_ERROR(Advance());
      NodePtr node = MakeNull(Type::kInt64, token.begin, token.end);
      node->is_null_literal = true;
      return node;
    }
    if (token.text == "case") return ParseCase();
    if (IsReserved(token.text)) return Expect(false, "a value");
    WEIR_RETURN_IF_ERROR(Advance());
    if (token.text == "timestamp" && token_.kind == TokenKind::kText) {
      const Token time = token_;
      WEIR_RETURN_IF_ERROR(Advance());
      int64_t time_us = 0;
      if (!ParseTimestamp(time.text, &time_us)) {
        return Error(time.begin, Concat(QuoteForMessage(time.text), " is no timestamp: expected ",
                                        ExpectedText(Type::kTimestamp)));
      }
      ColumnBuilder builder(Type::kTimestamp);
      builder.AppendInt64(time_us);
      return MakeLiteral(std::move(builder), token.begin, time.end);
    }
    if (IsSymbol("(")) return token.text == "cast" ? ParseCast(token) : ParseFunction(token);
    return ColumnNamed(std::string(token.source), token);
  }

  StatusOr<NodePtr> ColumnNamed(const std::string& name, const Token& token) const {
    StatusOr<int> index = schema_.Require(name);
    if (!index.ok()) return Error(token.begin, index.status().message());
    NodePtr node =
        MakeNode(Operation::kColumn, schema_.field(*index).type, token.begin, token.end, {});
    node->column = *index;
    return node;
  }

  StatusOr<NodePtr> ParseCast(const Token& token) {
    WEIR_RETURN_IF_ERROR(Advance());
    WEIR_ASSIGN_OR_RETURN(NodePtr node, ParseNested());
    WEIR_RETURN_IF_ERROR(ExpectWord("as"));
    const Token type_token = token_;
    WEIR_RETURN_IF_ERROR(Expect(token_.kind == TokenKind::kWord, "a type"));
    std::string type_name = type_token.text;
    for (char& c : type_name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    StatusOr<Type> type = ParseType(type_name);
    if (!type.ok()) return Error(type_token.begin, type.status().message());
    WEIR_RETURN_IF_ERROR(ExpectSymbol(")"));
    if (node->is_null_literal) return MakeNull(*type, token.begin, last_end_);
    if (!CanCast(node->type, *type)) {
      return Error(token.begin,
                   Concat("no cast from ", ToString(node->type), " to ", ToString(*type)));
    }
    if (node->type == *type) return node;
    return Checked(
        MakeNode(Operation::kCast, *type, token.begin, last_end_, Operands(std::move(node))));
  }

  StatusOr<NodePtr> ParseCase() {
    const size_t begin = token_.begin;
    WEIR_RETURN_IF_ERROR(Advance());
    std::vector<NodePtr> operands;
    do {
      WEIR_RETURN_IF_ERROR(ExpectWord("when"));
      WEIR_ASSIGN_OR_RETURN(NodePtr condition, ParseNested());
      WEIR_RETURN_IF_ERROR(ExpectWord("then"));
      WEIR_ASSIGN_OR_RETURN(NodePtr value, ParseNested());
      operands.push_back(std::move(condition));
      operands.push_back(std::move(value));
    } while (IsWord("when"));
    if (IsWord("else")) {
      WEIR_RETURN_IF_ERROR(Advance());
      WEIR_ASSIGN_OR_RETURN(NodePtr value, ParseNested());
      operands.push_back(std::move(value));
    } else {
      operands.push_back(MakeNull(Type::kInt64, token_.begin, token_.begin));
      operands.back()->is_null_literal = true;
    }
    WEIR_RETURN_IF_ERROR(ExpectWord("end"));
    return MakeCase(begin, std::move(operands));
  }

  StatusOr<NodePtr> MakeCase(size_t begin, std::vector<NodePtr> operands) {
    std::vector<NodePtr*> values;
    bool typed = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i % 2 == 1 || i + 1 == operands.size()) {
        values.push_back(&operands[i]);
        typed = typed || !operands[i]->is_null_literal;
      } else {
        WEIR_RETURN_IF_ERROR(RequireType(&operands[i], Type::kBool, "the condition"));
      }
    }
    if (!typed) return Error(begin, "all values are null: one needs a type, cast(null as …)");
    WEIR_ASSIGN_OR_RETURN(const Type type, Unify(values, "the values"));
    return Checked(MakeNode(Operation::kCase, type, begin, last_end_, std::move(operands)));
  }

  StatusOr<NodePtr> ParseFunction(const Token& token) {
    struct Function {
      std::string_view name;
      size_t arguments_min, arguments_max;
      std::string_view usage;
    };
    constexpr size_t kAny = 1000;
    static constexpr Function kFunctions[] = {
        {"abs", 1, 1, "abs(number)"},
        {"lower", 1, 1, "lower(text)"},
        {"upper", 1, 1, "upper(text)"},
        {"length", 1, 1, "length(text)"},
        {"substr", 2, 3, "substr(text, start [, count])"},
        {"concat", 1, kAny, "concat(text, …)"},
        {"coalesce", 1, kAny, "coalesce(value, …)"},
        {"if", 3, 3, "if(condition, value, value)"},
    };
    const Function* function = nullptr;
    std::vector<std::string> names = {"cast"};
    for (const Function& known : kFunctions) {
      if (known.name == token.text) function = &known;
      names.emplace_back(known.name);
    }
    if (function == nullptr) {
      const std::string nearest = NearestName(token.text, names);
      std::string all;
      for (const std::string& name : names) all += Concat(all.empty() ? "" : ", ", name);
      return Error(token.begin, Concat("unknown function '", token.source, "': ",
                                       nearest.empty() ? Concat("known are ", all)
                                                       : Concat("did you mean '", nearest, "'?")));
    }
    WEIR_RETURN_IF_ERROR(Advance());
    std::vector<NodePtr> arguments;
    while (!IsSymbol(")")) {
      if (!arguments.empty()) WEIR_RETURN_IF_ERROR(ExpectSymbol(","));
      WEIR_ASSIGN_OR_RETURN(NodePtr argument, ParseNested());
      arguments.push_back(std::move(argument));
    }
    WEIR_RETURN_IF_ERROR(Advance());
    if (arguments.size() < function->arguments_min || arguments.size() > function->arguments_max) {
      return Error(token.begin, Concat("'", token.source, "' has ", arguments.size(),
                                       " arguments: expected ", function->usage));
    }
    return MakeFunction(token, std::move(arguments));
  }

  StatusOr<NodePtr> MakeFunction(const Token& token, std::vector<NodePtr> arguments) {
    const std::string what = Concat("the argument of '", token.source, "'");
    const size_t begin = token.begin;
    if (token.text == "if") return MakeCase(begin, std::move(arguments));
    if (token.text == "abs") {
      WEIR_RETURN_IF_ERROR(RequireNumber(&arguments[0], what));
      const Type type = arguments[0]->type;
      return Checked(MakeNode(Operation::kAbs, type, begin, last_end_, std::move(arguments)));
    }
    if (token.text == "coalesce") {
      std::vector<NodePtr*> values;
      bool typed = false;
      for (NodePtr& argument : arguments) {
        values.push_back(&argument);
        typed = typed || !argument->is_null_literal;
      }
      if (!typed) return Error(begin, "all values are null: one needs a type, cast(null as …)");
      WEIR_ASSIGN_OR_RETURN(const Type type, Unify(values, "the values"));
      return Checked(MakeNode(Operation::kCoalesce, type, begin, last_end_, std::move(arguments)));
    }
    if (token.text == "concat") {
      for (NodePtr& argument : arguments) {
        if (argument->type == Type::kBytes) return RequireType(&argument, Type::kString, what);
        argument = Coerce(std::move(argument), Type::kString);
      }
      return Checked(
          MakeNode(Operation::kConcat, Type::kString, begin, last_end_, std::move(arguments)));
    }
    if (token.text == "length") {
      if (arguments[0]->type != Type::kBytes) {
        WEIR_RETURN_IF_ERROR(RequireType(&arguments[0], Type::kString, what));
      }
      return Checked(
          MakeNode(Operation::kLength, Type::kInt64, begin, last_end_, std::move(arguments)));
    }
    WEIR_RETURN_IF_ERROR(RequireType(&arguments[0], Type::kString, what));
    if (token.text == "substr") {
      for (size_t i = 1; i < arguments.size(); ++i) {
        if (arguments[i]->type == Type::kInt32) {
          arguments[i] = Coerce(std::move(arguments[i]), Type::kInt64);
        }
        WEIR_RETURN_IF_ERROR(RequireType(&arguments[i], Type::kInt64, what));
      }
      return Checked(
          MakeNode(Operation::kSubstr, Type::kString, begin, last_end_, std::move(arguments)));
    }
    return Checked(MakeNode(token.text == "lower" ? Operation::kLower : Operation::kUpper,
                            Type::kString, begin, last_end_, std::move(arguments)));
  }

  const std::string_view text_;
  const Schema& schema_;
  size_t position_ = 0;
  size_t last_end_ = 0;  // of the token before token_
  int nesting_ = 0;
  Token token_;
};

}  // namespace

StatusOr<std::unique_ptr<ExpressionNode>> ParseExpressionTree(std::string_view text,
                                                              const Schema& schema) {
  return Parser(text, schema).Parse();
}

}  // namespace weir::internal
