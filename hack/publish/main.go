// Command publish signs a finished release, and pushes it to a registry; package internal/release/publish says how.
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
	"os"
	"os/signal"

	"github.com/routesrv/routesrv/internal/release/publish"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	sign := flag.Bool("sign", false, "sign the release; needs -key")
	push := flag.Bool("push", false, "push image, manifests and their signatures to the registry")
	key := flag.String("key", "", "private key in PEM, or NAME://KEY, which the program sigstore-kms-NAME serves")
	repository := flag.String("image", "", "repository of the image, with the registry and without a tag; required")
	flag.Parse()
	if flag.NArg() != 1 || !*sign && !*push || *repository == "" || *sign == (*key == "") {
		return errors.New("usage: publish [-sign -key KEY] [-push] -image REGISTRY/NAME FOLDER")
	}
	r, err := publish.Open(flag.Arg(0))
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
	return r.Push(ctx, *repository, func(ref, digest string) { fmt.Println(ref + "@" + digest) })
}

// password is the password of an encrypted key.
func password() ([]byte, error) {
	text, ok := os.LookupEnv("COSIGN_PASSWORD")
	if !ok {
		return nil, errors.New("the key is encrypted: set COSIGN_PASSWORD")
	}
	return []byte(text), nil
}
