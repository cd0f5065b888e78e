// Command kms gives the command that signs releases, and cosign, access to keys of AWS, Azure, Google Cloud and
// HashiCorp Vault. It is a program sigstore-kms-NAME of cosign's plugin protocol, and takes NAME from the name under
// which it is run.
//
//	sigstore-kms-awskms      awskms:///alias/release
//	sigstore-kms-azurekms    azurekms://VAULT.vault.azure.net/release
//	sigstore-kms-gcpkms      gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K
//	sigstore-kms-hashivault  hashivault://release
//
// The clients of these services find their credentials in the usual places. The command is a separate module, because
// the clients need about ninety other modules, which nothing else here should depend on.
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
		// The caller reads errors from standard output and ignores the exit status.
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
	// Dispatch itself reports errors from here on.
	_, _ = handler.Dispatch(os.Stdout, os.Stdin, args, key)
	return nil
}
