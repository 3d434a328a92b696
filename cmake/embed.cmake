# cmake -DINPUT=file -DOUTPUT=file.cc -DFUNCTION=name -P embed.cmake: a file as a function of holdfast::routes that gives its bytes.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," numbers "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n    " numbers "${numbers}")
file(WRITE ${OUTPUT} "#include \"routes/pages.h\"

namespace holdfast::routes {

std::string_view ${FUNCTION}() {
  static constexpr unsigned char kBytes[] = {
    ${numbers}};
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

}  // namespace holdfast::routes
")
