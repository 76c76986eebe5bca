# The server's page as a source file: serve/page/page.html between the quotes of a raw string.
set(page "${PROJECT_SOURCE_DIR}/serve/page/page.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
file(READ "${page}" BALLAST_PAGE)
configure_file("${PROJECT_SOURCE_DIR}/serve/page/page_text.cc.in" "${PROJECT_BINARY_DIR}/page_text.cc" @ONLY)
target_sources(ballast_serve PRIVATE "${PROJECT_BINARY_DIR}/page_text.cc")
