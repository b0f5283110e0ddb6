# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# draw.sh - the pictures of the pages, from the text or the figures beside them.

for_draw=('have dot graphviz')
for_plot=('have python3 python3')

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

# Its release is given: another one draws the same figures in other bytes.
require_matplotlib()
{
	has_module matplotlib || into_venv 'matplotlib==3.11.2'
	has_module matplotlib || die 'matplotlib is needed: pip install matplotlib'
}

# The figures are those of the last runs of the benchmarks, as far as there are any.
plot()
{
	local json
	require "${for_plot[@]}"
	require_matplotlib
	python3 tools/dev/plot.py build/bench docs/pictures || exit 1
	for json in docs/pictures/*.json; do
		picture_source "$json" >>"${json%.json}.svg"
	done
}

# lint_picture SOURCE VERB: the picture was drawn from the source as it is.
lint_picture()
{
	local svg=${1%.*}.svg
	[ "$(tail -n 1 "$svg")" = "$(picture_source "$1")" ] ||
		{ echo "$svg was not drawn from $1 as it is: ./dev $2"; return 1; }
}

lint_pictures()
{
	local source bad=0
	for source in docs/pictures/*.dot; do
		lint_picture "$source" draw || bad=1
	done
	for source in docs/pictures/*.json; do
		lint_picture "$source" plot || bad=1
	done
	return "$bad"
}
