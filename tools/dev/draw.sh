# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# draw.sh - the pictures of the pages, from the text beside them.

for_draw=('have dot graphviz')

# Prints what the last line of a picture says: which text it was drawn from.
picture_source()
{
	echo "<!-- $(basename "$1"), sha256 $(sha256sum <"$1" | cut -d ' ' -f 1) -->"
}

draw()
{
	local dot svg
	require "${for_draw[@]}"
	for dot in docs/pictures/*.dot; do
		svg=${dot%.dot}.svg
		{ dot -Tsvg "$dot" && picture_source "$dot"; } >"$svg" || die "$dot cannot be drawn"
	done
}

# Each picture was drawn from the text as it is.
lint_pictures()
{
	local dot bad=0
	for dot in docs/pictures/*.dot; do
		[ "$(tail -n 1 "${dot%.dot}.svg")" = "$(picture_source "$dot")" ] ||
			{ echo "${dot%.dot}.svg was drawn from another text: ./dev draw"; bad=1; }
	done
	return "$bad"
}
