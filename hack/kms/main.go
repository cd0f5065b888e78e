// Command kms lends the keys of AWS, Azure, Google Cloud and HashiCorp Vault to the command that signs releases, and to cosign: it is a
// program sigstore-kms-NAME of their plugin protocol, and takes NAME from the name that it is called by.
//
//	sigstore-kms-awskms      awskms:///alias/release
//	sigstore-kms-azurekms    azurekms://VAULT.vault.azure.net/release
//	sigstore-kms-gcpkms      gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K
//	sigstore-kms-hashivault  hashivault://release
//
// Credentials are those that the clients of these services look for. It is a module of its own, because the clients need some ninety others,
// which nothing else here should depend on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature/kms"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/aws"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/azure"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/gcp"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/hashivault"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		// The caller reads errors from the standard output. It does not look at the status.
		_ = handler.WriteErrorResponse(os.Stdout, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), "sigstore-kms-")
	// Without this check the library would look for a program of that name, and find this one.
	if !ok || !slices.Contains(kms.SupportedProviders(), name+"://") {
		return fmt.Errorf("called as %s: want sigstore-kms- and one of %s", os.Args[0], strings.Join(kms.SupportedProviders(), " "))
	}
	args, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		return err
	}
	if args.InitOptions == nil || args.MethodArgs == nil {
		return fmt.Errorf("arguments %.200q: want initOptions and methodName", os.Args[2])
	}
	if d := args.InitOptions.CtxDeadline; d != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, *d)
		defer cancel()
	}
	key, err := kms.Get(ctx, name+"://"+args.InitOptions.KeyResourceID, args.InitOptions.HashFunc)
	if err != nil {
		return err
	}
	// What goes wrong from here on, Dispatch writes itself.
	_, _ = handler.Dispatch(os.Stdout, os.Stdin, args, key)
	return nil
}
