// Command publish signs a finished release, and pushes it to a registry; see package internal/release/publish.
//
//	publish -sign -key KEY -image registry.example.org/routesrv dist
//	publish -push -image registry.example.org/routesrv dist
//
// KEY is a file or a URI of a key management service. The password of an encrypted file comes from COSIGN_PASSWORD.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/routesrv/routesrv/internal/release/publish"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	sign := flags.Bool("sign", false, "sign the release; needs -key")
	push := flags.Bool("push", false, "push image, manifests and their signatures to the registry")
	key := flags.String("key", "", "private key in PEM, or NAME://KEY, which the program sigstore-kms-NAME serves")
	repository := flags.String("image", "", "repository of the image, with the registry and without a tag; required")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || !*sign && !*push || *repository == "" || *sign == (*key == "") {
		return errors.New("usage: publish [-sign -key KEY] [-push] -image REGISTRY/NAME FOLDER")
	}
	r, err := publish.Open(flags.Arg(0))
	if err != nil {
		return err
	}
	if *sign {
		s, err := publish.Load(ctx, *key, password)
		if err != nil {
			return err
		}
		if err := r.Sign(ctx, s, *repository); err != nil {
			return err
		}
	}
	if !*push {
		return nil
	}
	return r.Push(ctx, *repository, func(ref, digest string) { fmt.Fprintln(out, ref+"@"+digest) })
}

// password returns the password of an encrypted key.
func password() ([]byte, error) {
	text, ok := os.LookupEnv("COSIGN_PASSWORD")
	if !ok {
		return nil, errors.New("the key is encrypted: set COSIGN_PASSWORD")
	}
	return []byte(text), nil
}
