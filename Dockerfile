# An image in which any program has RDMA: the library, uroce, and the programs to try them.
#
#     docker build -t ferroverbs .
#     docker run --rm ferroverbs ibv_devinfo
#
# docs/ci.md says how to add it to an image of one's own. The stage `image` of `cargo xtask test`
# runs these commands in a chroot of the release.
FROM rust:1-slim-trixie AS build
# Versions are the release's.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev lld binutils \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release \
 && cargo xtask tarball --into /dist

FROM debian:trixie-slim
# Versions are the release's.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ibverbs-providers iproute2 perftest rdmacm-utils \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /dist /dist
RUN tar --extract --gzip --file /dist/ferroverbs-*.tar.gz --directory /tmp \
 && sh /tmp/ferroverbs-*/install.sh \
 && rm -rf /dist /tmp/ferroverbs-*
# For programs within the container. With the container's own interface, eth0, other containers are
# reached.
ENV UROCE_DEVICES=lo
USER 65534
CMD ["ibv_doctor"]
