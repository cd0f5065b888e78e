// Command release writes a release, or parts of it, into a folder; package internal/release documents its contents.
//
//	release -out dist                   archives, bills of materials, image, manifests, notes, provenance, checksums
//	release -image -out dist/image      the image alone, as an OCI layout
//	release -binaries -arch A -out DIR  the binaries of one architecture and the licenses
//
// Everything else comes from the environment, or from git: VERSION, REVISION, SOURCE_DATE_EPOCH, DOWNLOAD_URL (the
// folder for the files of the release), BUILDER_ID (the URI of the builder, for the provenance), and TARGETARCH as
// image builders set it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("out", "", "folder to write to; required")
	archs := flag.String("arch", "", "architectures, with commas between them; -binaries takes one (default: all, or $TARGETARCH, or that of this machine with -binaries)")
	plugins := flag.String("plugins", "", "systems of the plugin as OS/ARCH, with commas between them (default: darwin, linux and windows on all architectures)")
	imageOnly := flag.Bool("image", false, "write the image only, as an OCI layout")
	binaries := flag.Bool("binaries", false, "write the binaries only")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 || *imageOnly && *binaries {
		return errors.New("usage: release [-image | -binaries] [-arch LIST] [-plugins LIST] -out FOLDER")
	}
	c := release.Config{Source: "."}
	if *binaries {
		c.Version = cmp.Or(os.Getenv("VERSION"), "devel")
		arch := cmp.Or(*archs, os.Getenv("TARGETARCH"), runtime.GOARCH)
		c.Archs = []string{arch}
		return release.Compile(ctx, c, arch, *out)
	}
	c.Archs = strings.Split(cmp.Or(*archs, "amd64,arm64"), ",")
	if *plugins != "" {
		c.Plugins = strings.Split(*plugins, ",")
	}
	if err := describe(ctx, &c); err != nil {
		return err
	}
	c.Download, c.Builder = os.Getenv("DOWNLOAD_URL"), os.Getenv("BUILDER_ID")
	if *imageOnly {
		return release.Image(ctx, c, *out)
	}
	return release.All(ctx, c, *out)
}

// describe fills in which sources these are.
func describe(ctx context.Context, c *release.Config) (err error) {
	for _, v := range []struct {
		dst  *string
		name string
		args []string
	}{
		{&c.Version, "VERSION", []string{"describe", "--tags", "--always", "--dirty"}},
		{&c.Revision, "REVISION", []string{"rev-parse", "HEAD"}},
	} {
		if *v.dst = os.Getenv(v.name); *v.dst == "" {
			if *v.dst, err = git(ctx, v.args...); err != nil {
				return fmt.Errorf("%w; %s may say it instead", err, v.name)
			}
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("%w; SOURCE_DATE_EPOCH may say it instead", err)
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q: want Unix seconds", epoch)
	}
	c.Time = time.Unix(seconds, 0).UTC()
	return nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
