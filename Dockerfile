# The image with both programs: no shell, no packages, no root.
#
#   docker build --build-arg VERSION=v0.1.0 -t routesrv .

ARG GO_IMAGE=golang:1.26

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
# The programs are the main module: what the modules of tests and tools need has no influence on its versions.
ENV GOWORK=off
COPY go.mod go.sum ./
RUN ["go", "mod", "download"]
COPY . .
RUN ["go", "run", "tools/licenses/main.go", "-out", "/out/THIRD_PARTY_LICENSES"]
ARG TARGETARCH
ARG VERSION=devel
ENV CGO_ENABLED=0 GOOS=linux GOARCH=${TARGETARCH} GOFLAGS="-trimpath -gcflags=all=-dwarf=false '-ldflags=-s -X=main.version=${VERSION}'"
RUN ["go", "build", "-o", "/out/", "./cmd/routesrv", "./cmd/dataplane-client"]

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
COPY --from=build --chmod=0444 /src/LICENSE /out/THIRD_PARTY_LICENSES /usr/share/doc/routesrv/
USER 65532:65532
ENTRYPOINT ["/usr/bin/routesrv"]
