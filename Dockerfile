# The image with both binaries: no shell, no packages, no root. "make image" writes the same image without a daemon, from
# the last stage and the binaries of a release; a test holds the two together. No more instructions than those that
# package internal/image knows, and no shell in RUN.
#
#   docker build --build-arg VERSION=v0.1.0 -t routesrv .

ARG GO_IMAGE=golang:1.26

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN ["go", "mod", "download"]
COPY . .
ARG TARGETARCH
ARG VERSION=devel
RUN ["go", "run", "-trimpath", "./hack/release", "-binaries", "-out=/out"]

FROM scratch
ARG VERSION=devel
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="routesrv" \
      org.opencontainers.image.description="A coalescing route server for Kubernetes ingress fleets, and the client beside each proxy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build --chmod=0555 /out/routesrv /out/dataplane-client /usr/bin/
COPY --from=build --chmod=0444 /out/LICENSE /out/THIRD_PARTY_LICENSES /usr/share/doc/routesrv/
USER 65532:65532
ENTRYPOINT ["/usr/bin/routesrv"]
