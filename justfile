# Recipes for development; `just` lists them.

_list:
    @just --list

# everything that CI runs
ci:
    bash .ci/run

# the tests whose name contains one of FILTERS; all without one
test *FILTERS:
    cargo test --locked -- {{ FILTERS }}

# fuzz each target for SECONDS
fuzz SECONDS="60":
    bash .ci/fuzz {{ SECONDS }}

# write the snapshots of the tests whose name contains one of FILTERS, and show what changed
snap *FILTERS:
    INSTA_UPDATE=always cargo test --locked -- {{ FILTERS }}
    git diff --stat -- '*.snap'

# make the pictures of docs/ again
shots:
    bash docs/screenshots.sh
