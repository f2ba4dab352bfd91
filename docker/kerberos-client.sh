#!/usr/bin/env bash
# A Kafka client that can do Kerberos (GSSAPI), which the published wheel cannot: librdkafka, built with Cyrus SASL from
# the sources that a crate carries, and confluent-kafka built for it.
#
#     docker/kerberos-client.sh PREFIX      -> PREFIX/lib/librdkafka.so.1, PREFIX/wheels/confluent_kafka-*.whl
#
# Needs cargo (to fetch, not to compile), a C and C++ compiler, make, Python with pip, and these Debian packages:
#     libsasl2-dev libssl-dev zlib1g-dev liblz4-dev libzstd-dev libcurl4-openssl-dev
# To run: libsasl2-2 libsasl2-modules-gssapi-mit krb5-user
set -euo pipefail
crate=rdkafka-sys crate_version=4.10.0+2.12.1
sha256=e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77
prefix=$(mkdir -p "$1" && cd "$1" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/fetch" && cd "$work/fetch"
mkdir src && touch src/lib.rs
printf '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n' \
    "$crate" "${crate_version%+*}" > Cargo.toml
cargo fetch --quiet
archive=$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$crate-$crate_version.crate" | head -1)
echo "$sha256  $archive" | sha256sum --check --quiet

tar -xzf "$archive" -C "$work"
cd "$work/$crate-$crate_version/librdkafka"
./configure --prefix="$prefix" --disable-syslog --enable-gssapi > "$work/configure.log"
make -j"$(nproc)" libs > "$work/make.log" 2>&1 || { tail -50 "$work/make.log"; exit 1; }
make install > "$work/install.log" 2>&1
C_INCLUDE_PATH="$prefix/include" LIBRARY_PATH="$prefix/lib" LDFLAGS="-Wl,-rpath,$prefix/lib" \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-binary confluent-kafka \
    "confluent-kafka==${crate_version#*+}" --wheel-dir "$prefix/wheels"
ls "$prefix"/wheels/confluent_kafka-*.whl
