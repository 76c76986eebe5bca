// Expressions with which published tokenizers split text into pieces, in Oniguruma's syntax.
#ifndef BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_EXPRESSIONS_H_
#define BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_EXPRESSIONS_H_

namespace ballast::text::expressions {

// Parts shared by several expressions.
#define BALLAST_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define BALLAST_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define BALLAST_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define BALLAST_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define BALLAST_BEFORE_WORD R"([^\r\n\p{L}\p{N}]?)"
// Words in one case or with a capital, each with `ending`.
#define BALLAST_CASED_WORDS(upper, lower, ending) \
  BALLAST_BEFORE_WORD upper "*" lower "+" ending "|" BALLAST_BEFORE_WORD upper "+" lower "*" ending "|"

// One digit, or all of a run.
inline constexpr const char* kDigit = R"(\p{N})";
inline constexpr const char* kDigits = R"(\p{N}+)";
inline constexpr const char* kThreeDigits = R"(\p{N}{1,3})";

// GPT-2's encoder.py.
inline constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3, and DBRX, GLM-4.
inline constexpr const char* kLlama3 =
    BALLAST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kQwen2 =
    BALLAST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kQwen3_5 =
    BALLAST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kMiniCpm5 =
    BALLAST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kUfakzeka = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kSeedCoder =
    BALLAST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" BALLAST_SPACES;
inline constexpr const char* kJais2 = BALLAST_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|)"
    R"(\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
inline constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr const char* kExaoneMoe = BALLAST_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";

// GPT-4o and gpt-oss (o200k_base).
inline constexpr const char* kO200k = BALLAST_CASED_WORDS(
    BALLAST_UPPER, BALLAST_LOWER, BALLAST_CONTRACTIONS "?") R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" BALLAST_SPACES;
inline constexpr const char* kTekken =
    BALLAST_CASED_WORDS(BALLAST_UPPER, BALLAST_LOWER, "") R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" BALLAST_SPACES;
// Kimi K2: ideographs apart from other letters.
#define BALLAST_NO_HAN(characters) "(?:(?!\\p{Han})" characters ")"
inline constexpr const char* kKimiK2 = R"(\p{Han}+|)" BALLAST_CASED_WORDS(
    BALLAST_NO_HAN(BALLAST_UPPER), BALLAST_NO_HAN(BALLAST_LOWER),
    BALLAST_CONTRACTIONS "?") R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" BALLAST_SPACES;
#undef BALLAST_NO_HAN

// DeepSeek V3: after digits and ideographs.
inline constexpr const char* kIdeographsAndKana = "[一-龥぀-ゟ゠-ヿ]+";
inline constexpr const char* kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" BALLAST_SPACES;
inline constexpr const char* kSpark =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr const char* kYoutuScripts =
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";
inline constexpr const char* kYoutu = BALLAST_CASED_WORDS(
    BALLAST_UPPER, BALLAST_LOWER, BALLAST_CONTRACTIONS "?") R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" BALLAST_SPACES;

// DeepSeek LLM and Coder.
inline constexpr const char* kLineEnd = R"([\r\n])";
inline constexpr const char* kCasedLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ"
    "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼ"
    "ιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿ"
    "ⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚ"
    "ａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
inline constexpr const char* kAsciiAndWidePunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
inline constexpr const char* kSpacesAtEnd = R"(\s+$)";
inline constexpr const char* kEastAsian = "[一-龥ࠀ-一가-퟿]+";
inline constexpr const char* kSpacedLetters = R"(\s?\p{L}+)";
inline constexpr const char* kSpacedPunctuation = R"(\s?\p{P}+)";

// Arcee AFM: digits in threes counted from the right.
inline constexpr const char* kDigitsFromRight = R"((?<!\p{N})\p{N}{1,2}(?=(?:\p{N}{3})+(?!\p{N}))|\p{N}{1,3})";
inline constexpr const char* kAsianScripts =
    "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+";
// Cohere's Aya, the same where no letter follows.
inline constexpr const char* kAyaDigits = R"(\d{1,3}(?=(?:\d{3})*\b))";
// SuperBPE: cuts without matching anything.
inline constexpr const char* kBeforeThreeDigits = R"((?=(\d{3})+(?!\d)))";

inline constexpr const char* kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
inline constexpr const char* kAsciiThreeDigits = "[0-9][0-9][0-9]";
inline constexpr const char* kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
inline constexpr const char* kLines = R"([^\n]+|[\n]+)";
inline constexpr const char* kChameleonSentinel = "<sentinel:[0-9]+>";
inline constexpr const char* kChameleonImage = "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z";
inline constexpr const char* kChameleonSpaces = R"(([\t\n]|    |  ))";
inline constexpr const char* kChameleonPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

#undef BALLAST_CASED_WORDS
#undef BALLAST_BEFORE_WORD
#undef BALLAST_LOWER
#undef BALLAST_UPPER
#undef BALLAST_SPACES
#undef BALLAST_CONTRACTIONS

}  // namespace ballast::text::expressions

#endif  // BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_EXPRESSIONS_H_
